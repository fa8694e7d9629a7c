//go:build unix

package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// Each tenant has records of its own, which name it, and shows no other's.
func TestRecordsOfTenants(t *testing.T) {
	t.Parallel()
	c := config(t)
	dirs := map[string]string{"alice": filepath.Join(t.TempDir(), "alice"), "bob": filepath.Join(t.TempDir(), "bob")}
	first := tenants(t, c)
	for name, dir := range dirs {
		b, sc := tenant(t, first, name, dir)
		jobstest.End(t, b.shell(sc, engine.Command{Line: "echo of " + name}))
	}
	first.Close()
	next := tenants(t, c)
	for name, dir := range dirs {
		b, _ := tenant(t, next, name, dir)
		list := b.Jobs().List(jobs.Filter{})
		if len(list) != 1 || list[0].Title != "echo of "+name {
			t.Errorf("%s is shown %+v", name, list)
		}
		runs := must.Get(filepath.Glob(filepath.Join(c.StateDir, "tenants", name, "runs", "*", "*", "run.json")))(t)
		if len(runs) != 1 || !strings.Contains(string(must.Get(os.ReadFile(runs[0]))(t)), `"tenant":"`+name+`"`) {
			t.Errorf("%s has the runs %q", name, runs)
		}
	}
}

// A command that only reads shows what earlier servers ran, and leaves nothing of its own.
func TestOnlyReads(t *testing.T) {
	t.Parallel()
	c := config(t)
	first := newBench(t, c)
	j := first.shell(first.Scope(), engine.Command{Line: "echo hi"})
	jobstest.End(t, j)
	first.Close()
	before := must.Get(filepath.Glob(filepath.Join(c.StateDir, "*", "*", "*")))(t)
	c.OnlyReads = true
	b := newBench(t, c)
	past := must.Get(b.Jobs().Get(j.ID()))(t)
	if got := jobstest.Output(past); got != "hi\n" || !past.Past() {
		t.Errorf("its output is %q", got)
	}
	if lines := b.Killed(); lines != nil {
		t.Errorf("it accounts for %q", lines)
	}
	b.Close()
	if after := must.Get(filepath.Glob(filepath.Join(c.StateDir, "*", "*", "*")))(t); len(after) != len(before) {
		t.Errorf("%q became %q", before, after)
	}
}
