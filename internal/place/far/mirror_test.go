package far_test

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"asyncrepl/internal/output"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/test/linktest"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

// The life of a job is all that a mirror of it needs: record, output and displays are the same here and there.
func TestLifeCanBeMirrored(t *testing.T) {
	answered := make(chan struct{})
	there, c := engine(t, linktest.Runners{"work": func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.SetTerminal(func() (int, int) { return 24, 80 })
		sink := display.NewSink(p)
		for i := range 300 {
			p.Write(output.Stream(i%3), fmt.Appendf(nil, "%0500d\n", i))
			if i%20 == 0 {
				sink.Add("figure", "", []display.Form{{MIME: "text/html", Data: fmt.Append(nil, i)}})
			}
			if i == 150 {
				sink.Clear(true)
			}
		}
		p.SetInput(func(context.Context, jobs.Input) (jobs.Delivery, error) {
			p.SetRunning()
			close(answered)
			return jobs.Delivery{Waiting: true}, nil
		})
		p.Write(output.TTY, []byte("? "))
		p.SetWaiting(jobs.Question{Kind: "line", Prompt: "? ", By: "sh"})
		select {
		case <-answered:
		case <-ctx.Done(): // the test has failed
		}
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned, Notes: []string{"a note"}}, Result: "42", HasResult: true}
	}})
	here := jobstest.Registry(t)
	j := jobstest.Start(t, here, jobs.Spec{Kind: jobs.Shell, Title: "work", Place: "gpu"}, linktest.Runner(func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		r, body, err := c.Start(ctx, p.ID(), "work", nil, false, stream.Position{})
		if err != nil {
			t.Error(err)
			return jobs.Outcome{}
		}
		defer body.Close()
		p.SetInput(func(ctx context.Context, in jobs.Input) (jobs.Delivery, error) { return c.Input(ctx, p.ID(), "1", in) })
		var far *jobs.Record
		for {
			f, err := r.Next()
			switch {
			case err == io.EOF:
				return jobs.Outcome{Far: far}
			case err != nil:
			case f.Record != nil && f.Record.Status.Final():
				far = f.Record
			case f.Record != nil:
				err = p.Mirror(*f.Record)
			case f.Display != nil:
				err = p.MirrorDisplay(*f.Display, f.Forms)
			case f.Skip != nil:
				err = p.Skip(f.Skip.To, f.Skip.Why)
			default:
				p.Write(f.Stream, f.Data)
			}
			if err != nil {
				t.Error(err)
				return jobs.Outcome{}
			}
		}
	}))
	jobstest.Asks(t, j)
	if d := jobstest.Send(t, j, jobs.Input{Text: "x", Line: true}); !d.Waiting {
		t.Errorf("%+v", d)
	}
	mirrored, original := jobstest.End(t, j), there.Jobs.Lookup(j.ID())
	want := original.Record()
	ignored := cmpopts.IgnoreFields(jobs.Record{}, "Spec", "Created", "Started", "Ended", "Output.Last", "Cleared")
	if d := cmp.Diff(want, mirrored, ignored, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if got, want := jobstest.Output(j), jobstest.Output(original); got != want {
		t.Errorf("%d bytes of output came; the job has %d", len(got), len(want))
	}
	got, all := j.Displays(), original.Displays()
	if d := cmp.Diff(all, got[max(0, len(got)-len(all)):], cmpopts.IgnoreFields(jobs.Form{}, "Attachment")); d != "" {
		t.Error(d)
	}
	for i, d := range got {
		b := must.Get(j.Data(d.Forms[0]))(t)
		if want := fmt.Sprint((d.Number - 1) * 20); string(b) != want {
			t.Errorf("display %d of %d: %q, and should be %q", i, len(got), b, want)
		}
	}
	if mirrored.Cleared != want.Cleared {
		t.Errorf("replaced up to %d, and there up to %d", mirrored.Cleared, want.Cleared)
	}
}
