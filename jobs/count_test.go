package jobs_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

type runner func(context.Context, *jobs.Port) jobs.Outcome

func (f runner) Run(ctx context.Context, p *jobs.Port) jobs.Outcome { return f(ctx, p) }

func TestCountIsOfOneTenant(t *testing.T) {
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
	jobstest.Start(t, r, jobs.Spec{Tenant: "other"}, runner(func(context.Context, *jobs.Port) jobs.Outcome {
		<-release
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun}}
	}))
	for {
		changed := asks.Changed()
		if asks.Info().Asked == 2 {
			break
		}
		<-changed
	}
	want := jobs.Count{By: map[jobs.Status]int{jobs.Completed: 1, jobs.Failed: 1, jobs.WaitingInput: 1}, Running: 2, Max: 1000}
	if d := cmp.Diff(want, r.Count("")); d != "" {
		t.Error(d)
	}
	close(release)
}
