package main

import (
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/jobs/jobstest"
)

// A call that is sent after a restart, before the restart is answered, runs in the new Python; one
// that was sent before it does not.
func TestOrderAroundARestart(t *testing.T) {
	overStdio(t, "clients order their calls by waiting for answers")
	t.Parallel()
	s := startServer(t)
	// A step is one call, and the beginning of its job's final status.
	type step struct{ tool, code, status string }
	busy := []step{
		{"execute_python", "kept = 1\nwhile True: pass", "cancelled ("},
		{"execute_python", "kept = 2", "failed (not run: variables were lost in a restart)"},
	}
	restart := []step{
		{"restart_python_worker", "", ""},
		{"execute_python", "'kept' in globals()", "completed"},
	}
	for round := range jobstest.Rounds(t, 4) {
		var steps []step
		if round%2 == 0 {
			s.do("execute_python", "code", "kept = 1", "wait_seconds", 60)
			steps = restart
		} else {
			steps = append(busy, restart...)
		}
		var pending []*client.Pending
		for _, st := range steps {
			args := map[string]any{}
			if st.code != "" {
				args["code"], args["wait_seconds"] = st.code, 0
			}
			p, err := s.Start(st.tool, args)
			if err != nil {
				t.Fatal(err)
			}
			pending = append(pending, p)
		}
		var restarted, last client.Reply
		for i, st := range steps {
			r, err := pending[i].Reply(s.ctx())
			if err != nil {
				t.Fatal(err)
			}
			if st.code == "" {
				restarted = r
				continue
			}
			if last = s.end(r.Header("Job ID")); !strings.HasPrefix(last.Header("Status"), st.status) {
				t.Errorf("round %d, %q: status %q, not %q", round, st.code, last.Header("Status"), st.status)
			}
		}
		if strings.Count(string(restarted), "\nEnded: ") != len(steps)-len(restart) {
			t.Errorf("round %d: the restart names other jobs than it ended: %s", round, restarted)
		}
		if got := last.Section("RESULT"); !strings.HasPrefix(got, "False") {
			t.Errorf("round %d, after the restart: %s", round, last)
		}
	}
}
