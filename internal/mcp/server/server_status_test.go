package server

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
)

func TestServerStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	version := fmt.Sprintf("Version: test (%s, %s/%s), pid %d", runtime.Version(), runtime.GOOS, runtime.GOARCH, os.Getpid())
	const none = "Jobs: 0 of at most 1,000 at once\n"
	if got, want := c.call("server_status", nil), version+"\nWorkspace: "+w.workspace+"\n"+none; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	c.call("execute_python", given{"code": `raise "E"`})
	c.call("execute_python", given{"code": `out ""`})
	asks := field(c.call("execute_python", given{"code": `ask line "? "`, "wait_seconds": 60}), "Job ID")
	w.status = func(_ engine.Scope, s *overview.Server) {
		s.Started = time.Now().Add(-time.Minute)
		s.Works, s.Lacks = []string{"one thing", "another"}, []string{"no such luck", "nor this"}
		s.Python, s.Search = "/x/bin/python (3.11)", "/bin (PATH)"
		s.Sessions = []overview.Session{{Name: "a", PID: 7, Memory: 3 << 20, Job: asks, Queued: 2}, {Name: "b", PID: 8}, {Name: "c"}}
		s.MaxSessions, s.Processes, s.Memory, s.Self = 50, 1234, 5<<29, 21<<20+300<<10
		s.Orphans = []jobs.Process{{PID: 33, Program: "sleep"}}
		s.StateDir, s.Free = "/state", 812
	}
	want := version + ", up T\nWorkspace: " + w.workspace + "\nWorks: one thing; another\nDoes not work: no such luck\nDoes not work: nor this\n" +
		"Python: /x/bin/python (3.11)\nSearched: /bin (PATH)\nJobs: 1 of at most 1,000 at once: 1 waiting_input; ended: 1 completed, 1 failed\nSessions: 3 of at most 50\n" +
		"Session: a, busy with job " + asks + ", 2 queued, pid 7, 3.0 MiB\nSession: b, idle, pid 8\nSession: c, no Python runs\n" +
		"Processes: 1,234 of jobs and sessions, 2.5 GiB; the server itself 21.3 MiB\nDisk: 8.0 KiB of output in /state, 812 B free\n" +
		"Orphans: sleep (pid 33); their job is unknown\n"
	if d := cmp.Diff(want, times.ReplaceAllString(c.call("server_status", nil), "T")); d != "" {
		t.Error(d)
	}
	w.status = func(_ engine.Scope, s *overview.Server) { s.Sessions = make([]overview.Session, 20+3) }
	got := c.call("server_status", nil)
	if strings.Count(got, "\nSession: ") != 20+1 || !strings.Contains(got, "\nSession: 3 more\n") {
		t.Errorf("with many sessions:\n%s", got)
	}
}

// The state of a server says where a person can watch jobs, and the instructions point there. If there is
// no such place, neither says a word about it.
func TestWhereJobsAreWatched(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"", "async-repl page", "https://repl.example/"} {
		w := newWorld(t)
		w.config.Page = at
		status, instructions := w.dial(engine.Scope{}).call("server_status", nil), w.config.instructions()
		if strings.Contains(status, "\nPage: ") != (at != "") || !strings.Contains(status, at) {
			t.Errorf("%q: %s", at, status)
		}
		if strings.Contains(instructions, "Page") != (at != "") || strings.Contains(instructions, "/jobs/ID") != (at != "") {
			t.Errorf("%q: %s", at, instructions)
		}
	}
}
