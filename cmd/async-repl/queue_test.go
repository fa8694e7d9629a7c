package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"asyncrepl/jobs/jobstest"
)

// A job that waits for its session keeps no other job from running. A request about variables waits
// for the grace only.
func TestQueuedJobsHoldNoPlace(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_MAX_JOBS=2", "REPL_TOOLSETS=all")
	s.python("lab", "x = 1")
	asks := s.do("execute_python", "code", "input('name? ')", "wait_seconds", 60).Header("Job ID")
	behind := s.do("execute_python", "code", "1 + 1", "wait_seconds", 0)
	holds(t, behind, "Queued behind", asks+" (waiting_input)")
	holds(t, s.do("execute_command_async", "command", "true", "wait_seconds", 60), "Status", "completed")

	reads := s.do("execute_command_async", "command", "read line", "wait_seconds", 60).Header("Job ID")
	other := s.do("execute_python", "session", "other", "code", "2 + 2", "wait_seconds", 0)
	holds(t, other, "Queued", "2 jobs are running, the most allowed (REPL_MAX_JOBS): "+asks+" (waiting_input), "+reads+" (waiting_input)")
	if carrier() == "" { // at a place the call ends with the grace, before this reply comes
		holds(t, s.do("get_variable", "name", "x", "session", "lab"), "Status", "failed (not run: other jobs run, and its turn did not come in time; ask again later)")
	}
	s.do("send_python_input", "job_id", asks, "text", "x")
	for _, job := range []string{asks, behind.Header("Job ID"), other.Header("Job ID")} {
		holds(t, s.end(job), "Status", "completed")
	}
	s.do("cancel_job", "job_id", reads)
}

// Shell and Python jobs are queued, cancelled and killed in any order. Each one ends, and then the
// server takes jobs as before.
func TestQueueStorm(t *testing.T) {
	t.Parallel()
	rounds, seed := jobstest.Storm(t, 40)
	random := rand.New(rand.NewPCG(seed, 0))
	s := startServer(t, "REPL_MAX_JOBS=3")
	var all []string
	for i := range rounds {
		tool, args := "execute_command_async", []any{"command", fmt.Sprintf("sleep 0.0%d", random.IntN(10))}
		switch random.IntN(5) {
		case 0:
			args = []any{"command", "read line"}
		case 1:
			tool, args = "execute_python", []any{"code", "1", "session", fmt.Sprint("s", random.IntN(2))}
		case 2:
			tool, args = "execute_python", []any{"code", "input()", "session", fmt.Sprint("s", random.IntN(2))}
		case 3:
			args = []any{"command", fmt.Sprint("echo ", i), "shell_session", "build"}
		}
		all = append(all, s.do(tool, append(args, "wait_seconds", 0)...).Header("Job ID"))
		if random.IntN(3) == 0 {
			s.do("cancel_job", "job_id", all[random.IntN(len(all))], "force", random.IntN(2) == 0)
		}
	}
	if got := s.do("server_status").Header("Jobs"); !strings.Contains(got, " of at most 3 at once") {
		t.Errorf("server_status says %q", got)
	}
	for _, job := range all { // those that wait for input, and those that wait for these
		s.do("cancel_job", "job_id", job, "force", true)
	}
	for _, job := range all {
		s.end(job)
	}
	holds(t, s.do("execute_python", "code", "1 + 1", "wait_seconds", 60), "Status", "completed")
}
