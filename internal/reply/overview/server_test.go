package overview

import (
	"errors"
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

func TestLimitOfAllOutputNamesItsSetting(t *testing.T) {
	var r report.Reply
	Server{Disk: output.Usage{Dir: "/used", Failure: output.ErrLimit}}.disk(&r)
	const want = "Not written to disk: the limit of all output on disk is reached (REPL_MAX_STATE), and no job that has ended uses any of it; jobs continue"
	if !strings.Contains(r.String(), want) {
		t.Errorf("got %q, want %q", r.String(), want)
	}
}
