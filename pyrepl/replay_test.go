package pyrepl_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// replay runs code in b after what has led to the state after job.
func (b *bench) replay(of *bench, job, code string) (jobs.Record, string) {
	b.t.Helper()
	steps, err := of.s.History().Until(job)
	if err != nil {
		b.t.Fatal(err)
	}
	j := jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Python, Session: "new"}, b.s.WithCheckpoint(b.s.Replay(pyrepl.Replay{
		Earlier: steps, Work: pyrepl.Work{Code: code}, Note: "about the code",
		Abandon: func(context.Context) { b.run("abandoned = 1") }, // the session must be free by then
	})))
	return jobstest.End(b.t, j), jobstest.Output(j)
}

// A replay comes to the state after a job by running it and those before it again, from the last
// loss of the variables on. A failure that happened before too does not end it. The new session has
// all that in its history.
func TestReplay(t *testing.T) {
	t.Parallel()
	b, other := newBench(t), newBench(t)
	b.run("x = ['lost']")
	b.ended()
	b.run("x = [1]")
	failed, _ := b.run("def f(): return x\nprint('printed'); x.append(2); 1/0")
	last, _ := b.run("x.append(3); 'dropped'")
	b.run("x.append(4)")
	record, out := other.replay(b, last.ID, "import inspect; x, inspect.getsource(f)")
	printed := strings.Contains(out, "printed\n") && strings.Contains(out, "Traceback")
	if want := `([1, 2, 3], 'def f(): return x\n')`; record.Result != want || !printed || strings.Contains(out, "dropped") {
		t.Errorf("result %q, want %q; %s, %q", record.Result, want, record.Receipt.Text(), out)
	}
	if notes := record.Receipt.Notes; len(notes) != 2 || !strings.HasPrefix(notes[0], "run again first: 3 jobs in ") || notes[1] != "about the code" {
		t.Errorf("notes %q", notes)
	}
	want := "x = [1]: completed\ndef f(): return x\nprint('printed'); x.append(2); 1/0: failed (ZeroDivisionError: division by zero)\n" +
		"x.append(3); 'dropped': completed\n"
	other.history(want + "import inspect; x, inspect.getsource(f): completed\n")
	if e := other.s.History().Entries; e[1].Job != failed.ID || e[3].Job != record.ID {
		t.Errorf("jobs %s and %s, want %s and %s", e[1].Job, e[3].Job, failed.ID, record.ID)
	}
	b.result("x", "[1, 2, 3, 4]")
}

// What changed variables without code is done again too, and what only read them is not.
func TestReplayOfRequests(t *testing.T) {
	inFull(t)
	t.Parallel()
	b, other := newBench(t), newBench(t)
	b.run("x = [1]; y = 2")
	b.request(pyrepl.Request{Do: "set", Name: "z", Value: `{"a": [3]}`}, "")
	b.request(pyrepl.Request{Do: "get", Format: "text"}, "x.append(2)")
	last := jobstest.End(t, b.ask(pyrepl.Request{Do: "delete", Names: []string{"y"}}, "", jobstest.Patience))
	if status, _ := b.request(pyrepl.Request{Do: "delete"}, ""); status != "failed (KeyError: 'names')" { // never all by mistake
		t.Errorf("without names: %s", status)
	}
	if record, out := other.replay(b, last.ID, "x, z, 'y' in globals()"); record.Result != "([1], {'a': [3]}, False)" {
		t.Errorf("result %q, %s, %q", record.Result, record.Receipt.Text(), out)
	}
}

// A replay ends at the first job that fails and did not fail so before, or asks for input.
func TestReplayEndsWhereItDiffers(t *testing.T) {
	inFull(t)
	t.Parallel()
	for name, test := range map[string]struct {
		first, again string // what is run before; what the new session runs before that
		status       string
	}{
		"fails":         {"import os; f = open(os.path.basename(os.getcwd()) + '.txt', 'x')", "again", "failed (FileExistsError: "},
		"fails again":   {"1/0", "", "completed"},
		"asks":          {"import builtins; input('?') if hasattr(builtins, 'again') else None", "again", "failed (job ID, run again, asked for input)"},
		"reads":         {"import builtins, sys, subprocess\nif hasattr(builtins, 'again'): subprocess.run(['cat'])", "again", "failed (job ID, run again, asked for input)"},
		"catches":       {"import builtins\ntry: input('?') if hasattr(builtins, 'again') else None\nexcept BaseException: pass", "again", "failed (job ID, run again, asked for input)"},
		"kills":         {"import builtins, os\nif hasattr(builtins, 'again'): os._exit(3)", "again", "failed (process exited 3; variables lost)"},
		"succeeds late": {"import builtins\nif not hasattr(builtins, 'again'): 1/0", "again", "completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b, other := newBenchIn(t, dir), newBenchIn(t, dir)
			if test.again != "" {
				other.run("import builtins; builtins.again = 1")
			}
			step, _ := b.run(test.first)
			last, _ := b.run("y = 1")
			record, _ := other.replay(b, last.ID, "z = 1")
			status := strings.ReplaceAll(record.Receipt.Text(), step.ID, "ID")
			if !strings.HasPrefix(status, test.status) {
				t.Errorf("status %q, want %q", status, test.status)
			}
			h := other.s.History().Entries
			code, note := h[len(h)-1].Code(), strings.Join(record.Receipt.Notes, "; ")
			if test.status == "completed" {
				if code != "z = 1" || !strings.HasPrefix(note, "run again first: 2 jobs in ") || !strings.HasSuffix(note, "; about the code") {
					t.Errorf("%q was run last, notes %q", code, note)
				}
				if got := record.Receipt.Checkpoint; got != "kept" {
					t.Errorf("checkpoint: %s", got)
				}
				return
			}
			want := []string{"1 job after it and the new code were not run; ", "; session default, made for this job, is deleted again"}
			if !strings.Contains(status, "job ID") { // else the status names the job
				want = append(want, "job "+step.ID+" ended so when it was run again; 1 job")
			}
			for _, want := range want {
				if !strings.Contains(note, want) {
					t.Errorf("notes %q, want %q", note, want)
				}
			}
			if code != "abandoned = 1" {
				t.Errorf("%q was run last", code)
			}
			if got := record.Receipt.Checkpoint; got != "not kept: the code has not run" {
				t.Errorf("checkpoint: %s", got)
			}
		})
	}
}

// A file runs again if its content is the same, and so do the files that a notebook runs.
func TestReplayOfFiles(t *testing.T) {
	inFull(t)
	t.Parallel()
	dir := t.TempDir()
	b := newBenchIn(t, dir)
	replays := func(step jobs.Record, want string) {
		t.Helper()
		if record, out := newBenchIn(t, dir).replay(b, step.ID, "x"); record.Result != want {
			t.Errorf("result %q, %s, %q, want %s", record.Result, record.Receipt.Text(), out, want)
		}
	}
	write(t, dir, "step.py", "import sys; x = sys.argv[1:]")
	step, _ := b.runFile("step.py", "a")
	write(t, dir, "step.py", "import sys; x = sys.argv[1:]") // the same, at another time
	replays(step, "['a']")
	changed := func(step jobs.Record, name string) {
		t.Helper()
		record, _ := newBenchIn(t, dir).replay(b, step.ID, "x")
		if got, want := record.Receipt.Text(), "failed (job "+step.ID+" can't run again: "+name+" has changed)"; got != want {
			t.Errorf("status %q, want %q", got, want)
		}
	}
	write(t, dir, "step.py", "import sys; x = 'other'")
	changed(step, "step.py")
	if err := os.Remove(filepath.Join(dir, "step.py")); err != nil {
		t.Fatal(err)
	}
	changed(step, "step.py")
	b.ended()
	missing, _ := b.runFile("step.py")
	write(t, dir, "step.py", "x = 1") // it was not there
	changed(missing, "step.py")
	write(t, dir, "book.ipynb", `{"nbformat": 4, "cells": [{"cell_type": "code", "source": "%run sub/nested.py"}]}`)
	write(t, dir, "sub/nested.py", "x = 'nested'\nopen('sub/nested.py', 'a').close()")
	b.ended()
	book, _ := b.runFile("book.ipynb")
	replays(book, "'nested'")
	write(t, dir, "sub/nested.py", "x = 'nothing'")
	changed(book, "sub/nested.py")
}

// A state that can't be made again is refused, and why.
func TestHistoryThatCannotBeReplayed(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	first, _ := b.run("x = 1")
	stopped := b.start("input()")
	jobstest.Asks(t, stopped)
	refused := func(job, want string) {
		t.Helper()
		if _, err := b.s.History().Until(job); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	refused(stopped.ID(), "job "+stopped.ID()+" still runs")
	b.interrupt(stopped)
	last, _ := b.run("y = 1")
	refused(last.ID, "job "+stopped.ID()+" cancelled (interrupted; variables kept): what it had done by then can't be repeated")
	refused("other", "the session has no code of job other: it ran none, or its code is no longer kept")
	if steps, err := b.s.History().Until(first.ID); err != nil || len(steps) != 1 {
		t.Error(steps, err)
	}
	h := pyrepl.History{Dropped: 1200, Entries: b.s.History().Entries[:1]}
	if _, err := h.Until(first.ID); err == nil || err.Error() != "the session no longer keeps the code of 1,200 jobs before job "+first.ID+", which its state depends on" {
		t.Error(err)
	}
	b.ended()
	exited, _ := b.run("import os; os._exit(3)")
	refused(exited.ID, "job "+exited.ID+" failed (process exited 3; variables lost): what it had done by then can't be repeated")
}

// What a job had done before it was killed, timed out or stopped can't be done again, and nothing
// that depends on it can be made.
func TestStatesAfterUnfinishedJobsCannotBeReplayed(t *testing.T) {
	entry := func(job string, rec jobs.Receipt) pyrepl.Entry {
		return pyrepl.Entry{Job: job, Receipt: rec, Ended: time.Now()}
	}
	for name, rec := range map[string]jobs.Receipt{
		"killed":    {End: jobs.Signaled, Signal: "SIGSEGV", State: jobs.Lost},
		"exited":    {End: jobs.Exited, Code: 3, State: jobs.Lost},
		"stopped":   {End: jobs.Raised, State: jobs.Kept, Stop: &jobs.Stop{By: jobs.Agent, From: jobs.Interrupt}},
		"answered":  {End: jobs.Returned, State: jobs.Kept, Rungs: []jobs.Rung{jobs.Interrupt}},
		"memory":    {End: jobs.OutOfMemory, State: jobs.Lost},
		"not begun": {End: jobs.NotRun, State: jobs.Kept},
	} {
		h := pyrepl.History{Entries: []pyrepl.Entry{entry("a", jobs.Receipt{End: jobs.Returned, State: jobs.Kept}), entry("b", rec),
			entry("c", jobs.Receipt{End: jobs.Returned, State: jobs.Kept})}}
		for _, job := range []string{"b", "c"} {
			want := "job b " + rec.Text() + ": what it had done by then can't be repeated"
			if _, err := h.Until(job); err == nil || err.Error() != want {
				t.Errorf("%s, until %s: %v, want %s", name, job, err, want)
			}
		}
		if steps, err := h.Until("a"); err != nil || len(steps) != 1 {
			t.Errorf("%s: before it %d steps, %v", name, len(steps), err)
		}
	}
}
