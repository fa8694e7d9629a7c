package jobs_test

import (
	"context"
	"errors"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// notStarted is a runner that can't start, for a reason that the layers above have a remedy for.
type notStarted struct{ err error }

func (n notStarted) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: n.err.Error(), By: jobs.Program}, Err: n.err}
}

func TestReceiptNamesTheRemedy(t *testing.T) {
	known := errors.New("no terminal")
	r := jobs.NewRegistry(jobs.Config{Remedy: func(err error) string {
		if errors.Is(err, known) {
			return "use pipes"
		}
		return ""
	}})
	defer r.Close(jobs.Stop{By: jobs.Shutdown})
	for want, err := range map[string]error{
		"failed (could not start: no terminal: use pipes)": known,
		"failed (could not start: anything else)":          errors.New("anything else"),
	} {
		if got := jobstest.End(t, jobstest.Start(t, r, jobs.Spec{}, notStarted{err})).Receipt.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
