package worker

import (
	"fmt"
	"os"

	"asyncrepl/internal/terminal/pump"
)

// A jobPipes are the pipes of one job, for its stdout and its stderr. We read them; the write ends
// travel to the worker with the job.
type jobPipes struct{ out, errs pipe }

// A pipe has two ends.
type pipe struct{ r, w *os.File }

func newJobPipes() (p *jobPipes, err error) {
	p = &jobPipes{}
	if p.out.r, p.out.w, err = pump.Pipe(); err != nil {
		return nil, fmt.Errorf("opening pipes: %w", err)
	}
	if p.errs.r, p.errs.w, err = pump.Pipe(); err != nil {
		p.out.r.Close()
		p.out.w.Close()
		return nil, fmt.Errorf("opening pipes: %w", err)
	}
	return p, nil
}

// closeWriters closes our copies of the write ends. Call it once another process has copies: while
// this process holds a write end, the pipe never ends.
func (p *jobPipes) closeWriters() {
	p.out.w.Close()
	p.errs.w.Close()
}

// close closes all ends.
func (p *jobPipes) close() {
	p.closeWriters()
	p.out.r.Close()
	p.errs.r.Close()
}
