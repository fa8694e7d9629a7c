package jobs_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

type runner func(context.Context, *jobs.Port) jobs.Outcome

func (f runner) Run(ctx context.Context, p *jobs.Port) jobs.Outcome { return f(ctx, p) }

func TestCount(t *testing.T) {
	r := jobstest.Registry(t)
	release := make(chan struct{})
	end := func(rec jobs.Receipt) runner {
		return func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			return jobs.Outcome{Receipt: rec}
		}
	}
	jobstest.End(t, jobstest.Start(t, r, jobs.Spec{}, end(jobs.Receipt{End: jobs.Returned})))
	jobstest.End(t, jobstest.Start(t, r, jobs.Spec{}, end(jobs.Receipt{End: jobs.Raised})))
	asks := jobstest.Start(t, r, jobs.Spec{}, runner(func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.SetWaiting(jobs.Question{})
		p.SetRunning()
		p.SetWaiting(jobs.Question{})
		<-release
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	}))
	jobstest.Start(t, r, jobs.Spec{}, runner(func(context.Context, *jobs.Port) jobs.Outcome {
		<-release
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun}}
	}))
	jobstest.Start(t, r, jobs.Spec{Place: "gpu"}, runner(func(context.Context, *jobs.Port) jobs.Outcome {
		<-release
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun}}
	}))
	for {
		changed := asks.Changed()
		if asks.Record().Asked == 2 {
			break
		}
		<-changed
	}
	want := jobs.Count{By: map[jobs.Status]int{jobs.Completed: 1, jobs.Failed: 1, jobs.WaitingInput: 1, jobs.Queued: 2}, Running: 1, There: 1, Max: 1000}
	if d := cmp.Diff(want, r.Count()); d != "" {
		t.Error(d)
	}
	close(release)
}

// Totals count forgotten jobs, too.
func TestTotals(t *testing.T) {
	r := jobs.NewRegistry(jobs.Config{Keep: 1})
	t.Cleanup(func() { r.Close(jobs.Stop{}) })
	writes := func(text string, end jobs.End) runner {
		return func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			p.Write(output.Stdout, []byte(text))
			return jobs.Outcome{Receipt: jobs.Receipt{End: end}}
		}
	}
	for _, text := range []string{"one", "three"} {
		jobstest.End(t, jobstest.Start(t, r, jobs.Spec{}, writes(text, jobs.Returned)))
	}
	jobstest.End(t, jobstest.Start(t, r, jobs.Spec{}, writes("other", jobs.Raised)))
	begun, release := make(chan struct{}), make(chan struct{})
	last := jobstest.Start(t, r, jobs.Spec{}, runner(func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		close(begun)
		<-release
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
	}))
	<-begun
	polltest.Until(t, "the jobs to be forgotten", func() bool { return len(r.List(jobs.Filter{})) == 2 })
	want := jobs.Totals{Now: map[jobs.Status]int{jobs.Running: 1}, Ended: map[jobs.Status]int64{jobs.Completed: 2, jobs.Failed: 1}, Output: 13}
	if d := cmp.Diff(want, r.Totals()); d != "" {
		t.Error(d)
	}
	close(release)
	jobstest.End(t, last)
	if got := r.Totals(); len(got.Now) != 0 || got.Ended[jobs.Completed] != 3 {
		t.Errorf("after the end: %+v", got)
	}
}

// A job that ends is at no moment missing from the totals.
func TestTotalsMissNoJobThatEnds(t *testing.T) {
	t.Parallel()
	r := jobstest.Registry(t)
	const n = 300
	released := make(chan struct{})
	for range n {
		jobstest.Start(t, r, jobs.Spec{}, runner(func(_ context.Context, p *jobs.Port) jobs.Outcome {
			p.Begin()
			<-released
			return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
		}))
	}
	close(released)
	for ended := int64(0); ended < n; {
		got := r.Totals()
		all := int64(0)
		for _, now := range got.Now {
			all += int64(now)
		}
		if ended = got.Ended[jobs.Completed]; all+ended != n {
			t.Fatalf("there are %d jobs: %+v", n, got)
		}
	}
}
