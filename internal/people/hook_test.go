//go:build unix

package people

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// call returns what Claude Code gives a hook on standard input after a call with that reply.
func call(reply string) string {
	b, _ := json.Marshal(map[string]any{
		"session_id": "4f7c", "hook_event_name": "PostToolUse", "tool_name": "mcp__async-repl__execute_command_async",
		"tool_input":    map[string]any{"command": "Job ID: 01ARZ3NDEKTSV4RRFFQ69G5FAV\nStatus: running\n"},
		"tool_response": []any{map[string]any{"type": "text", "text": reply}},
	})
	return string(b)
}

// begins returns a job and the reply that shows it running.
func (s *served) begins(line string) (*jobs.Job, string) {
	s.t.Helper()
	j := s.start(line)
	reply := must.Get(s.agent.Call(s.t.Context(), "check_job_status", map[string]any{"job_id": j.ID()}))(s.t)
	return j, string(reply)
}

// A hook follows the job that a reply shows running, to its end or question.
func TestHookTellsOfTheEnd(t *testing.T) {
	w, s := serving(t)
	for line, want := range map[string]string{
		"sleep 0.3; exit 4":                 " failed (exit 4) (sleep 0.3; exit 4)",
		"sleep 0.3; printf 'PIN: '; read x": " waits for input: PIN: (sleep 0.3; printf 'PIN: '; read x)",
	} {
		j, reply := s.begins(line)
		w.stdin = strings.NewReader(call(reply))
		w.run("hook").expect(t, "", "async-repl: job "+j.ID()+want+"\n", 2)
	}
}

// Other calls, jobs that no engine has and bad input are passed over in silence.
func TestHookIsSilentOtherwise(t *testing.T) {
	w, s := serving(t)
	ended, reply := s.begins("sleep 0.1")
	jobstest.End(t, ended)
	asks := s.asking("read x")
	for name, input := range map[string]string{
		"an ended job":     call(reply),
		"one that asks":    call("Job ID: " + asks.ID() + "\nStatus: waiting_input\n"),
		"output":           call("Job ID: 01ARZ3NDEKTSV4RRFFQ69G5FAV\nStatus: completed\n\n--- STDOUT ---\nJob ID: " + asks.ID() + "\nStatus: running\n"),
		"an unknown job":   call("Job ID: 01ARZ3NDEKTSV4RRFFQ69G5FAV\nStatus: running\n"),
		"another tool":     `{"tool_name": "Edit", "tool_response": {"filePath": "x", "success": true}}`,
		"nothing":          "",
		"no JSON":          "\x00\xff",
		"half a call":      call(reply)[:200],
		"no object":        `[1, 2]`,
		"a deep response":  `{"tool_response": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"a large response": `{"tool_response": "` + strings.Repeat("x", callMax) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w.stdin = strings.NewReader(input)
			w.run("hook").expect(t, "", "", 0)
			w.stdin = strings.NewReader(input)
			w.run("hook", "--unknown", "x").expect(t, "", "", 0)
		})
	}
}

// Each job has one follower, and the next one follows when that has ended, however.
func TestEachJobHasOneFollower(t *testing.T) {
	w, r := remotely(t)
	j, other := r.start("sleep 1000"), r.start("sleep 1000")
	about := func(id string) string { return string(r.tool("check_job_status", map[string]any{"job_id": id})) }
	reply, second := about(j), about(other)
	type run struct {
		*exec.Cmd
		said  bytes.Buffer
		ended chan struct{}
	}
	start := func(input string) *run {
		h := &run{Cmd: w.command("hook"), ended: make(chan struct{})}
		h.Stdin, h.Stderr = strings.NewReader(input), &h.said
		must.Do(t, h.Start())
		go func() { // ends with the hook
			h.Wait()
			close(h.ended)
		}()
		return h
	}
	// follower starts a hook that follows a job, again if a busy machine was too slow for it, or if this test
	// had the lock just then.
	follower := func(id, input string) *run {
		h := start(input)
		polltest.Until(t, "a hook follows job "+id, func() bool {
			select {
			case <-h.ended:
				h = start(input)
			default:
			}
			lock, err := lockJob(job{&report.Document{ID: id}, &host{place: w.place}})
			if err == nil {
				lock.Close()
			}
			return err != nil
		})
		return h
	}
	first := follower(j, call(reply))
	late := start(call(reply))
	if <-late.ended; late.ProcessState.ExitCode() != 0 || late.said.Len() > 0 {
		t.Errorf("another follower: %v, %q", late.ProcessState, &late.said)
	}
	// A reply about both jobs makes a follower of the one that has none.
	both := follower(other, call(reply+"\n"+second))
	must.Do(t, first.Process.Signal(unix.SIGKILL))
	<-first.ended
	third := follower(j, call(reply))
	for _, id := range []string{other, j} {
		r.tool("cancel_job", map[string]any{"job_id": id})
	}
	<-both.ended
	<-third.ended
	if both.ProcessState.ExitCode() != 2 || !strings.Contains(both.said.String(), "job "+other+" cancelled") || strings.Contains(both.said.String(), j) {
		t.Errorf("of the second job: %v, %q", both.ProcessState, &both.said)
	}
	if third.ProcessState.ExitCode() != 2 || !strings.Contains(third.said.String(), "job "+j+" cancelled") {
		t.Errorf("of the first job: %v, %q", third.ProcessState, &third.said)
	}
	if names := must.Get(os.ReadDir(w.place))(t); len(names) != 2 {
		t.Errorf("besides the socket and %s: %v", filepath.Join(w.place, lockName), names)
	}
}
