package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// died begins the answer to a call whose tenant's process was killed.
const died = "The server of this tenant died during this call"

// A tenant whose processes are killed at any moment disturbs no other tenant. Its calls are answered with what
// was lost, and its next call starts another process, whose reply names the jobs and variables.
func TestTenantKillStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	t.Parallel()
	rounds, seed := jobstest.Storm(t, confinedRounds)
	f := newTokens(t, "alice", "bob")
	s := prepareTenants(t, true, f, "-python", "")
	s.begin()

	ctx, stop := context.WithCancel(t.Context())
	var calls atomic.Int64
	var calling sync.WaitGroup
	defer calling.Wait()
	defer stop()
	for _, version := range []string{client.Newer, client.Older} {
		bob := s.as(t, f, "bob", version)
		bob.do("execute_python", "code", "mine = 1", "wait_seconds", 60)
		calling.Go(func() { // joined by the test; ends when stop is called
			for ctx.Err() == nil {
				for tool, args := range map[string]map[string]any{
					"execute_command_async": {"command": "echo out", "wait_seconds": 60}, "list_variables": nil, "execute_python": {"code": "mine", "wait_seconds": 60},
				} {
					r, err := bob.Call(s.ctx(), tool, args)
					want := map[string]string{"execute_command_async": "out", "list_variables": "mine", "execute_python": "completed"}[tool]
					if err != nil || !strings.Contains(string(r), want) || r.Header("Lost") != "" {
						t.Errorf("another tenant's call was disturbed: %v, %s", err, r)
					}
					calls.Add(1)
				}
			}
		})
	}
	for i := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		victim := 1 + r.IntN(3)
		t.Run(fmt.Sprintf("%d %s", i, []string{"", "bubblewrap", "first process", "engine"}[victim]), func(t *testing.T) {
			before := calls.Load()
			alice := s.as(t, f, "alice", []string{client.Newer, client.Older}[r.IntN(2)])
			variable, tag := fmt.Sprint("kept_", i), newTag()
			job := alice.do("execute_command_async", "command", "touch /tmp/mine; exec sleep "+tag, "wait_seconds", 0).Header("Job ID")
			alice.do("execute_python", "code", variable+" = 1", "wait_seconds", 60)
			begun := filepath.Join(alice.dir, fmt.Sprint("begun", i))
			call, err := alice.Start("execute_command_async", map[string]any{"command": "touch " + begun + "; while :; do echo x; done", "wait_seconds": 100})
			if err != nil {
				t.Fatal(err)
			}
			polltest.Until(t, "the job to begin", func() bool { _, err := os.Stat(begun); return err == nil })

			// These calls meet the end of the process at any moment.
			beside, end := context.WithCancel(t.Context())
			var more sync.WaitGroup
			var lost lockedBuffer
			for range 3 {
				other := s.as(t, f, "alice", client.Newer)
				more.Go(func() { // joined below; ends when end is called
					for beside.Err() == nil {
						r, err := other.Call(s.ctx(), "list_jobs", nil)
						if err != nil && (!errors.Is(err, client.ErrTool) || !strings.Contains(err.Error(), died)) {
							t.Errorf("a call was answered with %v", err)
						}
						lost.Write([]byte(r.Header("Lost")))
					}
				})
			}
			<-time.After(time.Duration(r.ExpFloat64() * float64(50*time.Millisecond)))
			chain := s.tenantChain(alice.dir)
			if len(chain) != 4 {
				t.Fatalf("the processes of the tenant are %v", chain)
			}
			syscall.Kill(chain[victim], syscall.SIGKILL)
			if _, err := call.Reply(s.ctx()); !errors.Is(err, client.ErrTool) || !strings.Contains(err.Error(), died) {
				t.Errorf("the call was answered with %v", err)
			}
			next := s.as(t, f, "alice", client.Newer)
			reply := next.do("list_jobs")
			end()
			more.Wait()
			said := reply.Header("Lost") + lost.String()
			for _, want := range []string{"an earlier server was killed, and with it job ", job, "variables of session default: ", variable} {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in %q", want, said)
				}
			}
			holds(t, next.do("check_job_status", "job_id", job), "Status", "failed (server was killed)")
			if left := (&storm{started: &started{dir: "none"}, tag: tag}).left(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			polltest.Until(t, "a call of the other tenant", func() bool { return calls.Load() > before })
		})
	}
	stop()
	calling.Wait()
	t.Logf("%d calls of the other tenant", calls.Load())
}

// A tenant whose token comes back at any moment is served, or asked to call again: nothing of it was lost.
func TestTokenComesBackWhileTheTenantEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	t.Parallel()
	rounds, seed := jobstest.Storm(t, confinedRounds)
	f := newTokens(t, "alice", "bob")
	lines := f.lines(t)
	s := prepareTenants(t, true, f, "-session-ttl", "1ms", "-log-level", "info")
	s.begin()
	alice := s.as(t, f, "alice", client.Newer)
	ended := 0
	call := func(tool string, args map[string]any) client.Reply {
		t.Helper()
		for deadline := time.Now().Add(longest); ; {
			r, err := alice.Call(s.ctx(), tool, args)
			if errors.Is(err, client.ErrTool) && (strings.Contains(err.Error(), "Call again") || strings.Contains(err.Error(), "nothing was started")) && time.Now().Before(deadline) {
				ended++
				continue
			}
			must.Do(t, err)
			holds(t, r, "Lost", "")
			return r
		}
	}
	for i := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		job := call("execute_command_async", map[string]any{"command": "true", "wait_seconds": 60}).Header("Job ID")
		f.write(t, lines[1])
		s.hangUp("tokens reread")
		<-time.After(time.Duration(r.IntN(20)) * time.Millisecond)
		f.write(t, lines...)
		s.hangUp("tokens reread")
		holds(t, call("check_job_status", map[string]any{"job_id": job}), "Status", "completed")
	}
	t.Logf("%d calls met the end in %d rounds", ended, rounds)
}
