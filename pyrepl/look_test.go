package pyrepl_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/text/callstack"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// looks looks at a job until its innermost call is in a function.
func looks(t *testing.T, j *jobs.Job, function string) (s callstack.Stack) {
	t.Helper()
	polltest.Check(t, func() (err error) {
		record, live := j.Record(), j.Live()
		if record.Status == jobs.Running && live.Looker != nil {
			s, err = live.Looker.Look()
			if err != nil && !errors.Is(err, pystack.ErrMoving) {
				t.Fatal(err)
			}
			if n := len(s.Calls); n > 0 && s.Calls[n-1].Function == function {
				return nil
			}
		}
		err = fmt.Errorf("the job never got to %s: %+v\noutput: %q", function, record, jobstest.Output(j))
		if record.Status.Final() {
			t.Fatal(err)
		}
		return err
	})
	return s
}

// A busy session shows where it is: in each interpreter, across jobs and files, without its
// worker's own calls.
func TestLook(t *testing.T) {
	needtest.Tracing(t, pystack.Available())
	for _, python := range holdersUnderTest(t) {
		t.Run(python.version, func(t *testing.T) {
			t.Parallel()
			b := newBenchOn(t, python.path, t.TempDir())
			b.showsCalls()
			b.showsAwait()
			b.result("x", "1")
		})
	}
}

// showsCalls looks at a job that sleeps in a function of a file, which one of an earlier job has
// called. Two jobs have run the code of that one: the newer is named.
func (b *bench) showsCalls() {
	t := b.t.(*testing.T)
	write(t, b.cfg.Dir, "steps.py", "import time\n\ndef step(n):\n    time.sleep(n)  # long\n")
	const code = "import steps\ndef outer():\n    steps.step(3600)"
	b.run(code)
	first, _ := b.run(code)
	j := b.start("x = 1\nouter()")
	s := looks(t, j, "step")
	want := []callstack.Call{
		{File: "<job " + j.ID() + ">", Function: "<module>", Line: 2, Source: "outer()"},
		{File: "<job " + first.ID + ">", Function: "outer", Line: 3, Source: "steps.step(3600)"},
		{File: filepath.Join(b.cfg.Dir, "steps.py"), Function: "step", Line: 4, Source: "time.sleep(n)  # long"},
	}
	if !slices.Equal(s.Calls, want) || s.Outer != 0 || s.More || s.Awaits || s.Own != want[0].File {
		t.Errorf("the stack is %+v; want %+v", s, want)
	}
	if s, err := j.Live().Looker.Look(); s.Since == callstack.First || s.Since == callstack.Moved || err != nil {
		t.Errorf("the next look: %+v, %v", s, err)
	}
	b.interrupt(j)
	if looker := j.Live().Looker; looker != nil {
		t.Errorf("after the end: %v", looker)
	}
}

// A loop that sleeps most of the time is in the same place at each look, and yet it moves.
func TestLoopOfSleepsIsNotStill(t *testing.T) {
	t.Parallel()
	needtest.Tracing(t, pystack.Available())
	b := newBench(t)
	rounds := filepath.Join(b.cfg.Dir, "rounds")
	j := b.start("import time\ndef nap(f):\n    while True: f.write(b'.'); time.sleep(0.004)\nnap(open('rounds', 'wb', 0))")
	looks(t, j, "nap")
	for same := 0; same < 3; {
		before, _ := os.Stat(rounds)
		polltest.Until(t, "the loop to come round", func() bool {
			now, err := os.Stat(rounds)
			return err == nil && now.Size() > before.Size()+1
		})
		switch looks(t, j, "nap").Since {
		case callstack.Still:
			t.Fatal("the loop stands still")
		case callstack.Same:
			same++
		}
	}
	b.interrupt(j)
}

// showsAwait looks at a job that awaits.
func (b *bench) showsAwait() {
	t := b.t.(*testing.T)
	j := b.start("import asyncio\nasync def nap():\n    await asyncio.sleep(3600)\nawait nap()")
	var s callstack.Stack
	polltest.Until(t, "the await", func() bool { s = looks(t, j, "sleep"); return s.Awaits }) // at first sleep runs
	if len(s.Calls) != 3 || s.Calls[1].Source != "await asyncio.sleep(3600)" || !strings.HasSuffix(s.Calls[2].File, "/asyncio/tasks.py") || s.Calls[2].Source == "" {
		t.Errorf("the stack of a job that awaits is %+v", s)
	}
	b.interrupt(j)
}

// Of a module that was changed after its import there is no source to show: it would not be what
// runs.
func TestLookAtChangedModule(t *testing.T) {
	inFull(t)
	needtest.Tracing(t, pystack.Available())
	b := newBench(t)
	const code = "import time\n\ndef step():\n    time.sleep(3600)"
	write(t, b.cfg.Dir, "steps.py", code)
	b.run("import sys; sys.dont_write_bytecode = False; import steps")
	write(t, b.cfg.Dir, "steps.py", code+"  # changed\n")
	for _, next := range []string{"", code + "  # changed while it runs"} {
		j := b.start("steps.step()")
		looks(t, j, "step")
		if next != "" {
			write(t, b.cfg.Dir, "steps.py", next)
		}
		if s := looks(t, j, "step"); s.Calls[1].Source != "" || s.Calls[1].Line != 4 {
			t.Errorf("the stack is %+v", s)
		}
		b.interrupt(j)
		b.run("import importlib; _ = importlib.reload(steps)")
	}
}

// A worker that has not finished its start can be looked at.
func TestLookAtStart(t *testing.T) {
	inFull(t)
	needtest.Tracing(t, pystack.Available())
	b := newBench(t)
	j := b.start("import time\ntime.sleep(3600)")
	for live := j.Live(); live.Looker == nil; live = j.Live() {
		if record := j.Record(); record.Status.Final() {
			t.Fatalf("the job ended: %+v", record)
		}
		runtime.Gosched()
	}
	looks(t, j, "<module>")
	b.interrupt(j)
}
