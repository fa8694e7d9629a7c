package overview

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestSessionsAreDescribed(t *testing.T) {
	busy := Session{
		Name: "lab", Parent: "base", Job: "01A", Queued: 2, PID: 812, Variables: 1, Processes: 2, Threads: 3, Memory: 20 << 20, CPU: 1500 * time.Millisecond,
		Jobs: 14, Ran: 100 * time.Second, Age: 2 * time.Hour, Python: "/venv/bin/python", Dir: "/work", MemoryMB: 300,
	}
	idle := Session{Name: "idle", PID: 813, Idle: 5 * time.Second, Age: time.Minute, Dir: "/"}
	for want, s := range map[string]Session{
		"lab, busy with job 01A, 2 queued, 1 variable, pid 812, 3 threads in 2 processes, 20.0 MiB, CPU 1.5s, 14 jobs in 1m40s, 2h0m old, " +
			"Python /venv/bin/python, in /work, at most 300 MB a process, branch of base": busy,
		"idle, idle for 5.0s, 0 variables, pid 813, 0 jobs in 0.00s, 1m0s old, in /":                           idle,
		"new, no Python runs, idle for 0.00s, 0 variables, 0 jobs in 0.00s, 0.00s old, in /a\\nb":              {Name: "new", Dir: "/a\nb"},
		"new, no Python runs, idle for 0.00s, 0 variables, 0 jobs in 0.00s, 0.00s old, in /, rerun of job 01B": {Name: "new", Dir: "/", Rerun: "01B"},
	} {
		if got := s.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got, want := busy.line(), "lab, busy with job 01A, 2 queued, pid 812, 20.0 MiB"; got != want {
		t.Errorf("in short: %q, want %q", got, want)
	}
	if got, want := idle.line(), "idle, idle, pid 813"; got != want {
		t.Errorf("in short: %q, want %q", got, want)
	}
}

func TestListOfSessionsIsBounded(t *testing.T) {
	list := make([]Session, 1000)
	for i := range list {
		list[i] = Session{Name: strings.Repeat("n", 64), Dir: "/" + strings.Repeat("d", 1000)}
	}
	got := Sessions(list, 1000, 10_000, nil).String()
	if n := utf8.RuneCountInString(got); n > 10_100 || n < 9_000 || !strings.Contains(got, "\nOmitted: 984 sessions\n") {
		t.Errorf("%d characters:\n%s", n, got[:200])
	}
	if got := Sessions(nil, 50, 100, nil).String(); got != "No sessions yet." {
		t.Errorf("no sessions: %q", got)
	}
}
