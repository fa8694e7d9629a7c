package pyrepl

import (
	"context"

	"asyncrepl/jobs"
)

// Hold returns a runner that runs another while it has the session's turn. Jobs that are queued
// behind it wait, and are not run if it fails: they need what it makes.
func (s *Session) Hold(run jobs.Runner) jobs.Runner { return &hold{s: s, run: run} }

// A hold is the runner that Hold returns.
type hold struct {
	s    *Session
	run  jobs.Runner
	turn *ticket
}

// Queue takes the job's place behind those that were started before it.
func (h *hold) Queue(p *jobs.Port) { h.turn = h.s.enqueue(p) }

// Run waits for the job's turn and runs it. If it is stopped before that, the jobs behind it are
// not run either.
func (h *hold) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	select {
	case <-h.turn.ready:
	case <-ctx.Done():
	}
	var out jobs.Outcome
	switch {
	case ctx.Err() != nil:
		h.s.withdraw(h.turn)
		out = notRun(ctx, context.Cause(ctx))
	case h.turn.err != nil:
		out = notRun(ctx, h.turn.err)
	default:
		out = h.run.Run(ctx, p)
	}
	dropped := ""
	if out.Receipt.Status() != jobs.Completed {
		dropped = "job " + p.ID() + " did not complete, and this one was queued behind it"
	}
	h.s.release(h.turn, dropped)
	return out
}
