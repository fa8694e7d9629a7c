package delivery

import (
	"context"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// draws is a runner that draws a progress bar and runs until it is stopped.
type draws struct{ replaced bool } // the bar, by what follows

func (d draws) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	p.Write(output.Stderr, []byte("\r 43%|████▎     | 4300/10000 [00:12<00:16, 350.12it/s]"))
	if d.replaced {
		p.Clear(true)
	}
	p.Write(output.Stdout, []byte("loading\n"))
	<-ctx.Done()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Stop: p.Stop()}}
}

// The note of a running job has the work that its progress bar shows; that of several jobs has none.
func TestNoteHasTheWorkOfABar(t *testing.T) {
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, draws{})
	jobstest.Prints(t, j, "loading\n")
	if n := NoteOf(j); n.Done != 4300 || n.Total != 10_000 || !strings.HasSuffix(n.Line, ": loading") {
		t.Errorf("%+v", n)
	}
	if n := NoteOfAll([]*jobs.Job{j}); n.Total != 10_000 || !strings.HasPrefix(n.Line, "0 of 1 have ended; ") {
		t.Errorf("of one job: %+v", n)
	}
	if n := NoteOfAll([]*jobs.Job{j, j}); n.Total != 0 {
		t.Errorf("of two jobs: %+v", n)
	}
	j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Interrupt})
	jobstest.End(t, j)
	if n := NoteOf(j); n.Total != 0 {
		t.Errorf("of an ended job: %+v", n)
	}
}

// The note of a job has nothing of a bar that the job has replaced.
func TestNoteHasNoReplacedBar(t *testing.T) {
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, draws{replaced: true})
	jobstest.Prints(t, j, "loading\n")
	if n := NoteOf(j); n.Total != 0 || !strings.HasSuffix(n.Line, ": loading") {
		t.Errorf("%+v", n)
	}
}
