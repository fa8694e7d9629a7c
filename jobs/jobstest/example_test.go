package jobstest_test

import (
	"context"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// An echo is the runner under test.
type echo struct{}

func (echo) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	lines := make(chan string, 1) // the one answer
	p.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
		p.SetRunning()
		lines <- in.Text
		return jobs.Delivery{Waiting: true}, nil
	})
	p.Begin()
	p.Write(output.Stdout, []byte("say: "))
	p.SetWaiting(jobs.Question{Kind: "line", Prompt: "say: "})
	p.Write(output.Stdout, []byte(<-lines))
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

// This is the example of the package. It is a test because everything here takes a testing.TB. A
// wait that fails prints the state of the job.
func TestExample(t *testing.T) {
	r := jobstest.Registry(t) // closed with the test
	j := jobstest.Start(t, r, jobs.Spec{Kind: jobs.Python, Title: "echo"}, echo{})
	if q := jobstest.Asks(t, j); q.Prompt != "say: " {
		t.Errorf("prompt %q", q.Prompt)
	}
	jobstest.Send(t, j, jobs.Input{Text: "hello\n", Line: true})
	jobstest.Prints(t, j, "hello")
	if record := jobstest.End(t, j); record.Status != jobs.Completed {
		t.Errorf("status %s", record.Status)
	}
	if out := jobstest.Output(j); out != "say: hello\n" {
		t.Errorf("output %q", out)
	}
}
