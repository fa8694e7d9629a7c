package overview

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

func TestFailingDiskIsReported(t *testing.T) {
	var r report.Reply
	Server{
		Disk: output.Usage{Dir: "/used", Bytes: 3 << 30, Limit: 10 << 30, Failure: errors.New("no space left")},
		Jobs: jobs.Count{Lossy: 2}, StateDir: "/state", Free: -1,
	}.disk(&r)
	const want = "Disk: 3.0 GiB of at most 10.0 GiB of output in /state\n" +
		"Not written to disk: no space left; jobs continue, and of long output the beginning and the end are kept\nDisk losses: 2 jobs lost output to a failing disk\n"
	if r.String() != want {
		t.Errorf("got %q, want %q", r.String(), want)
	}
}

// The limit is that of jobs here. Jobs at places are counted beside it.
func TestJobsAtPlacesAreCounted(t *testing.T) {
	got := jobCount(jobs.Count{By: map[jobs.Status]int{jobs.Running: 3}, Running: 1, There: 2, Max: 1000})
	if want := "1 of at most 1,000 at once, and 2 at places: 3 running"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLimitOfAllOutputNamesItsSetting(t *testing.T) {
	var r report.Reply
	Server{Disk: output.Usage{Dir: "/used", Failure: output.ErrLimit}}.disk(&r)
	const want = "Not written to disk: the limit of all output on disk is reached (REPL_MAX_STATE), and no job that has ended uses any of it; jobs continue"
	if !strings.Contains(r.String(), want) {
		t.Errorf("got %q, want %q", r.String(), want)
	}
}

// The state of a server says what its sandbox is, what it protects no more and what it leaves out, and nothing
// of that without one.
func TestSandboxIsDescribed(t *testing.T) {
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprintf("A_NAME_OF_SOME_LENGTH_%02d_TOKEN", i)
	}
	s := Server{
		Sandbox: "workspace; writes /srv/app, /tmp; home hidden; network none", Unprotected: []string{"/srv/app/.mcp.json can be written now"},
		Removed: []string{"AWS_SECRET_ACCESS_KEY", "GH_TOKEN"},
		Denied:  jobs.Denied{First: []jobs.Denial{{Target: "CONNECT a:443", Process: jobs.Process{PID: 8, Program: "curl"}, Times: 1}}, More: 2},
	}
	const want = "Sandbox: workspace; writes /srv/app, /tmp; home hidden; network none\nSandbox: /srv/app/.mcp.json can be written now\n" +
		"Left out: AWS_SECRET_ACCESS_KEY, GH_TOKEN (REPL_SANDBOX_ENV passes them)\nDenied: CONNECT a:443 by curl (pid 8); and 2 more; of no job that runs\n"
	if got := s.Reply().String(); !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	s.Removed = many
	all := s.Reply().String()
	for _, name := range many {
		if !strings.Contains(all, name) {
			t.Errorf("%s is not in %q", name, all)
		}
	}
	s.Sandbox = ""
	if got := s.Reply().String(); strings.Contains(got, "Sandbox") || strings.Contains(got, "Left out") || strings.Contains(got, "Denied") {
		t.Errorf("without a sandbox: %q", got)
	}
}
