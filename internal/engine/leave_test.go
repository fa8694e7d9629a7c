//go:build unix

package engine_test

import (
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"

	"github.com/google/go-cmp/cmp"
)

// The engine of a tenant that no caller can reach ends when it has been idle, and not before. What
// it counted stays counted.
func TestTenantThatLeftEndsWhenItIsIdle(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.SessionTTL = 10 * time.Millisecond
	all := tenants(t, c)
	dirs := map[string]string{}
	benches := map[string]*bench{}
	for _, name := range []string{"stays", "idle", "busy", "session"} {
		dirs[name] = t.TempDir()
		b, sc := tenant(t, all, name, dirs[name])
		benches[name] = b
		jobstest.End(t, b.shell(sc, engine.Command{Line: "printf 12345"}))
		if name == "session" {
			b.create(sc, engine.SessionSpec{Name: "lab"})
		}
	}
	live := jobstest.Start(t, benches["busy"].Jobs(), jobs.Spec{}, waits{})
	has := func(name string) bool {
		e, err := all.Tenant(name, dirs[name])
		if err != nil && err != engine.ErrEnding {
			t.Fatal(err)
		}
		return e == benches[name].Engine
	}
	// Nothing but Keep makes a tenant leave. One that comes back at once is as it was.
	all.Keep([]string{"stays", "busy"})
	all.Keep([]string{"stays"})
	polltest.Until(t, "the end of the idle tenants", func() bool { return !has("idle") && !has("session") })
	if !has("busy") || !has("stays") {
		t.Errorf("the tenant with a job is there: %v, the one with a token: %v", has("busy"), has("stays"))
	}
	live.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
	jobstest.End(t, live)
	polltest.Until(t, "the end of the last", func() bool { return !has("busy") })
	if !has("stays") {
		t.Error("a tenant with a token has ended")
	}
	got := all.Totals()
	if d := cmp.Diff(map[jobs.Status]int64{jobs.Completed: 4, jobs.Cancelled: 1}, got.Ended); d != "" || got.Output != 20 || len(got.Now) != 3 {
		t.Errorf("%+v\n%s", got, d)
	}
}

// A tenant that comes back in time finds its jobs, and does not end then.
func TestTenantThatComesBackFindsItsJobs(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.SessionTTL = time.Hour
	all := tenants(t, c)
	dir := t.TempDir()
	b, sc := tenant(t, all, "alice", dir)
	j := b.shell(sc, engine.Command{Line: "printf 12345"})
	jobstest.End(t, j)
	all.Keep(nil)
	all.Keep([]string{"alice"})
	again, _ := tenant(t, all, "alice", dir)
	if found, err := again.Jobs().Get(j.ID()); err != nil || found != j {
		t.Errorf("its job: %v, %v", found, err)
	}
}
