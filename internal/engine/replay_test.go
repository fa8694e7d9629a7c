//go:build linux

package engine_test

import (
	"errors"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// rerun runs code in the state after a job by running again what has led to it.
func (b *bench) rerun(after jobs.Record, code string) (string, *jobs.Job) {
	b.t.Helper()
	replay := must.Get(b.Replay(after))(b.t)
	name, run := must.Get2(replay.Run("", engine.Work{Code: code}))(b.t)
	return name, jobstest.Start(b.t, b.Jobs(), jobs.Spec{Kind: jobs.Python, Session: name, Title: code}, run)
}

// A rerun that ends before its own code runs leaves no session, and so takes the place of none. One
// that comes to its code keeps it, and names the job that ran the same in the same state.
func TestRerunThatFailsLeavesNoSession(t *testing.T) {
	inFull(t)
	t.Parallel()
	c := config(t)
	c.MaxSessions = 2
	b := newBench(t, c)
	sc := b.Scope()
	first := jobstest.End(t, b.python(sc, "base", "import os, pathlib; pathlib.Path('made').mkdir()"))
	same := jobstest.End(t, b.python(sc, "base", "x = 1"))
	const note = "Same code as job "
	for range 2 {
		name, j := b.rerun(first, "x = 1")
		record := jobstest.End(t, j)
		text := strings.Join(record.Receipt.Notes, "; ")
		if name != "base-2" || !strings.HasPrefix(record.Receipt.Text(), "failed (FileExistsError: ") || strings.Contains(text, note) {
			t.Errorf("session %s: %s, notes %q", name, record.Receipt.Text(), text)
		}
		if record.Receipt.State != "" || record.Receipt.Names.NewCount != 0 {
			t.Errorf("variables of a session that is deleted: %q, %+v", record.Receipt.State, record.Receipt.Names)
		}
		if list, _ := b.Sessions(); len(list) != 1 {
			t.Errorf("the sessions are %v", list)
		}
	}
	if got := b.says(sc, "base", "os.rmdir('made')"); got != "" {
		t.Error(got)
	}
	name, j := b.rerun(first, "x = 1")
	record := jobstest.End(t, j)
	text := strings.Join(record.Receipt.Notes, "; ")
	if record.Status != jobs.Completed || !strings.HasSuffix(text, note+same.ID+", which ran it in the same state") {
		t.Errorf("%s, notes %q", record.Receipt.Text(), text)
	}
	if list, _ := b.Sessions(); len(list) != 2 || list[1].Name != name || list[1].Rerun != first.ID {
		t.Errorf("the sessions are %+v", list)
	}
}

// The state after a job is where any session has it, also once the job's own session has gone on
// or is deleted. A branch that has gone on too has the code still.
func TestStateIsKeptByABranch(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t, config(t))
	sc := b.Scope()
	job := jobstest.End(t, b.python(sc, "base", "x = [1]"))
	must.Get2(b.Branch(t.Context(), "base", "twig"))(t)
	b.says(sc, "base", "x.append('base')")
	continued := func(name string) {
		t.Helper()
		st, _, err := b.Continue(t.Context(), job, name)
		if err != nil || st.Parent != "twig" {
			t.Fatalf("%s: %+v, %v", name, st, err)
		}
		if got := b.says(sc, name, "print(x); x.append(2)"); got != "[1]\n" {
			t.Errorf("%s has %s", name, got)
		}
	}
	continued("gone-on")
	wait, _ := must.Get2(b.Delete("base", jobs.Agent, "test"))(t)
	if _, err := wait(t.Context()); err != nil {
		t.Error(err)
	}
	continued("deleted")
	b.says(sc, "twig", "x.append(2)")
	if _, _, err := b.Continue(t.Context(), job, "fourth"); !errors.Is(err, engine.ErrNotKept) {
		t.Errorf("a state that no session has: %v", err)
	}
	name, again := b.rerun(job, "print(x)")
	if record := jobstest.End(t, again); name == "" || record.Status != jobs.Completed || jobstest.Output(again) != "[1]\n" {
		t.Errorf("session %s: %s, %s", name, record.Receipt.Text(), jobstest.Output(again))
	}
	for _, name := range []string{"gone-on", "deleted", "twig", name} {
		if _, _, err := b.Delete(name, jobs.Agent, "test"); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Replay(job); !isNoSession(err) {
		t.Errorf("a job whose session is deleted: %v", err)
	}
}
