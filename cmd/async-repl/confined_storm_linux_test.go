package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// confinedRounds is the number of rounds in the gate.
const confinedRounds = 8

// As [TestFrontKillStorm], in a sandbox: its processes are killed, too.
func TestConfinedKillStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	frontKillStorm(t, confinedRounds, prepareConfined)
}

// A server without a front ends with each process of its sandbox. Nothing is left of it, the client
// gets an answer or the end of the connection, and the next server says what was lost.
func TestConfinedKillStormOfOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	rounds, seed := jobstest.Storm(t, confinedRounds)
	for i := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		victim := r.IntN(4)
		t.Run(fmt.Sprintf("%d %s", i, []string{"outer", "bubblewrap", "first process", "engine"}[victim]), func(t *testing.T) {
			t.Parallel()
			tag := newTag()
			s := &storm{started: openConfined(t, "STORM="+tag, "REPL_KEEPER=off"), rand: r, tag: tag}
			s.write("tree.sh", treeScript)
			waits := s.do("execute_command_async", "command", "touch /tmp/mine; read x", "wait_seconds", 60).Header("Job ID")
			s.run("kept = 1", "session", "00") // two sessions are named, and there are 0 and 1
			s.plant(true)
			writes, err := s.Start("execute_command_async", map[string]any{"command": "while :; do echo x >> /tmp/mine; echo x; done", "wait_seconds": 100})
			if err != nil {
				t.Fatal(err)
			}
			s.pause(time.Duration(r.ExpFloat64() * float64(100*time.Millisecond)))
			chain := chainOf(s.engine())
			if len(chain) != 4 {
				t.Fatalf("the processes of the sandbox are %v", chain)
			}
			syscall.Kill(chain[victim], syscall.SIGKILL)
			s.exit()
			if _, err := writes.Reply(s.ctx()); err == nil || errors.Is(err, client.ErrTool) {
				t.Errorf("the call is answered with %v", err)
			}
			s.clear()
			next := s.next()
			lost := next.do("list_jobs").Header("Lost")
			for _, want := range []string{"an earlier server was killed", "variables of session 00: kept"} {
				if !strings.Contains(lost, want) {
					t.Errorf("no %q in %q", want, lost)
				}
			}
			holds(t, next.do("check_job_status", "job_id", waits), "Status", "failed (server was killed)")
			polltest.Until(t, "the end of what it had in /tmp", func() bool {
				own, _ := filepath.Glob(filepath.Join(filepath.Dir(s.records()), "tmp", "*"))
				return len(own) == 1
			})
		})
	}
}
