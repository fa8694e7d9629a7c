package pyrepl_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// An exception that a signal handler of the user's raises belongs to the job that runs: also if the
// job waits for an answer, and also an OSError, which could be the channel's.
func TestHandlerRaisesInInput(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("import signal\nkeep = 1\ndef late(*_): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)", "completed")
	j := b.start("input('? ')")
	jobstest.Asks(t, j)
	asleep(t, j.Record().PID)
	syscall.Kill(j.Record().PID, syscall.SIGALRM)
	jobstest.EndsAs(t, j, "failed (TimeoutError: late)")
	if out := jobstest.Output(j); strings.Contains(out, "async-repl") {
		t.Errorf("output %q", out)
	}
	b.result("keep", "1")
	b.answer("input('? ')", "? ", "me", "'me'")
}

// An exception that a handler raises between jobs is reported in the output of the last job.
func TestHandlerRaisesBetweenJobs(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.want("import signal\nkeep = 1\ndef late(*_): raise error\nsignal.signal(signal.SIGALRM, late)", "completed")
	for code, report := range map[string]string{
		"error = TimeoutError('late')": "TimeoutError: late",
		"error = ValueError('late')":   "ValueError: late",
		"error = SystemExit('late')":   "late",
	} {
		j := b.start(code)
		pid := jobstest.End(t, j).PID
		asleep(t, pid)
		syscall.Kill(pid, syscall.SIGALRM)
		jobstest.PrintsLate(t, j, report)
		if out := jobstest.Output(j); strings.Contains(out, "async-repl") {
			t.Errorf("output %q", out)
		}
		b.result("keep", "1")
	}
}

// asleep waits until a process waits for something.
func asleep(t *testing.T, pid int) {
	t.Helper()
	polltest.Check(t, func() error {
		p, err := procfs.Inspect(pid)
		if err != nil {
			t.Fatal(err)
		}
		if p.State != 'S' {
			return fmt.Errorf("process %d does not wait: %+v", pid, p)
		}
		return nil
	})
}
