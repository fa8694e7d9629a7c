//go:build linux

package pyrepl_test

import (
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/text/callstack"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// sees looks at a job until what it sees is as a function wants.
func sees(t *testing.T, j *jobs.Job, what string, is func(s callstack.Stack) bool) {
	t.Helper()
	polltest.Until(t, what, func() bool {
		looker := j.Live().Looker
		if looker == nil {
			return false
		}
		s, err := looker.Look()
		return err == nil && is(s)
	})
}

// A look at a worker that runs none of the user's code says what it does.
func TestLookOutsideOfCode(t *testing.T) {
	inFull(t)
	needtest.Tracing(t, pystack.Available())
	t.Parallel()
	b := newForkBench(t, "import asyncio\nos.register_at_fork(after_in_child=hang)\nloop = asyncio.get_running_loop()\nawait asyncio.sleep(0)")
	outside := func(j *jobs.Job, want string) {
		t.Helper()
		sees(t, j, "a look that says "+want, func(s callstack.Stack) bool { return len(s.Calls) == 0 && s.Outside == want })
		j.Stop(stop(jobs.Kill))
		jobstest.End(t, j)
	}
	spec := jobs.Spec{Kind: jobs.Python, Session: "default"}
	outside(jobstest.Start(t, b.r, spec, b.s.WithCheckpoint(b.s.Exec("1"))), "outside of its code, while Python is being forked")
	b.want("_ = loop.call_soon(time.sleep, 1000)", "completed")
	outside(b.start("await asyncio.sleep(0)"), "in the event loop, between two steps of its code")
	b.want("import sys, time\nsys.displayhook = time.sleep", "completed")
	outside(b.start("1000"), "outside of its code, which is being compiled or whose result is being shown")
}

// A look at a worker that a signal has stopped says so, whether or not it has begun with the job.
func TestLookAtAStoppedWorker(t *testing.T) {
	needtest.Tracing(t, pystack.Available())
	t.Parallel()
	b := newBench(t)
	b.want("import time", "completed")
	pid := b.s.State().PID
	ends := func(j *jobs.Job) {
		syscall.Kill(pid, syscall.SIGCONT)
		if got := jobstest.End(t, j).Receipt; got.State != jobs.Kept {
			t.Errorf("after SIGCONT: %s", got.Text())
		}
	}
	if _, err := b.s.Variables(t.Context(), ""); err != nil { // when it answers, it has left the first job
		t.Fatal(err)
	}
	halt(t, pid)
	j := b.start("1")
	sees(t, j, "a worker that has not begun", func(s callstack.Stack) bool {
		return s.Stopped && len(s.Calls) == 0 && s.Outside == "outside of its code, which has not begun or has just ended"
	})
	ends(j)
	j = b.start("time.sleep(1000)")
	looks(t, j, "<module>")
	halt(t, pid)
	sees(t, j, "a worker that was stopped in its code", func(s callstack.Stack) bool { return s.Stopped && len(s.Calls) == 1 })
	j.Stop(stop(jobs.Interrupt))
	ends(j)
}

// A branch can be looked at like its parent, and shows code that the parent ran.
func TestLookAtBranch(t *testing.T) {
	needtest.Tracing(t, pystack.Available())
	b := newBench(t)
	b.run("import time\ndef nap():\n    time.sleep(3600)")
	twig := b.branch("twig")
	j := twig.start("nap()")
	if s := looks(t, j, "nap"); len(s.Calls) != 2 {
		t.Errorf("the stack is %+v", s)
	}
	twig.interrupt(j)
}
