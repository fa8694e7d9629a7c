package pyrepl_test

import (
	"context"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A gate is a runner that ends when a test says how.
type gate chan jobs.Receipt

// Run waits for the receipt, or for a stop.
func (g gate) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	select {
	case rec := <-g:
		return jobs.Outcome{Receipt: rec}
	case <-ctx.Done():
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Code: 1, By: jobs.Agent}}
	}
}

// hold starts a job that holds the session until the gate opens.
func (b *bench) hold(g gate) *jobs.Job {
	b.t.Helper()
	return jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Package, Session: "default", Title: "test"}, b.s.Hold(g))
}

// Jobs behind one that holds the session run once it has completed.
func TestHoldLetsJobsWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := make(gate)
	held := b.hold(g)
	next := b.start("1 + 1")
	if st := b.s.State(); st.Job != held.ID() || st.Queued != 1 || st.Idle() {
		t.Errorf("the session is at %q, with %d queued", st.Job, st.Queued)
	}
	g <- jobs.Receipt{End: jobs.Exited, By: jobs.Program}
	if record := jobstest.End(t, next); record.Result != "2" {
		t.Errorf("the job behind: %s, result %q", record.Receipt.Text(), record.Result)
	}
	if st := b.s.State(); st.Jobs != 1 {
		t.Errorf("%d jobs are counted, want that of Python only", st.Jobs)
	}
}

// Jobs behind one that holds the session are not run if it fails. Later ones are.
func TestHoldThatFailsDropsTheJobsBehindIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := make(gate)
	held := b.hold(g)
	dropped := []*jobs.Job{b.start("1"), b.start("2")}
	g <- jobs.Receipt{End: jobs.Exited, Code: 1, By: jobs.Program}
	want := "failed (not run: job " + held.ID() + " did not complete, and this one was queued behind it)"
	for _, j := range dropped {
		jobstest.EndsAs(t, j, want)
	}
	b.result("1 + 1", "2")
}

// The end of a session stops what holds it.
func TestDeleteStopsWhatHoldsTheSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.hold(make(gate))
	dropped := b.start("1")
	wait, err := b.s.Delete(jobs.Agent, "delete_session")
	if err != nil {
		t.Fatal(err)
	}
	if end, err := wait(t.Context()); end.Had || err != nil {
		t.Errorf("the end: %+v, %v", end, err)
	}
	jobstest.End(t, held)
	jobstest.EndsAs(t, dropped, "failed (not run: variables were lost in the end of the session)")
	b.want("1", "failed (not run: the session has been closed)")
	if _, err := b.s.Delete(jobs.Agent, "delete_session"); err == nil {
		t.Error("a second end is not refused")
	}
}

// late is the runner that stoppedFirst runs when its job has been stopped.
type late interface {
	jobs.Runner
	Queue(*jobs.Port)
}

type stoppedFirst struct{ late }

// Run implements jobs.Runner.
func (s stoppedFirst) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	<-ctx.Done()
	return s.late.Run(ctx, p)
}

// Jobs behind one that was stopped before it ran are not run either.
func TestHoldThatIsStoppedFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := jobstest.Start(t, b.r, jobs.Spec{Kind: jobs.Package, Session: "default", Title: "test"}, stoppedFirst{b.s.Hold(make(gate)).(late)})
	behind := b.start("1")
	held.Stop(stop(jobs.Kill))
	jobstest.EndsAs(t, held, "cancelled (before it ran)")
	jobstest.EndsAs(t, behind, "failed (not run: job "+held.ID()+" did not complete, and this one was queued behind it)")
	b.result("1 + 1", "2")
}
