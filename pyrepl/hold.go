package pyrepl

import (
	"context"

	"asyncrepl/jobs"
)

// Hold returns a runner that runs another while it has the session's turn. Jobs that are queued
// behind it wait, and are not run if it fails: they need what it makes.
func (s *Session) Hold(run jobs.Runner) jobs.Runner { return &hold{s: s, run: run} }

type hold struct {
	s    *Session
	run  jobs.Runner
	turn *ticket
}

// Queue takes the job's place behind those that were started before it.
func (h *hold) Queue(p *jobs.Port) { h.turn = h.s.enqueue(p) }

// Run waits for the job's turn and runs it.
func (h *hold) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	if err := h.s.await(ctx, h.turn); err != nil {
		return notRun(ctx, err)
	}
	out := h.run.Run(ctx, p)
	dropped := ""
	if out.Receipt.Status() != jobs.Completed {
		dropped = "job " + p.ID() + " did not complete, and this one was queued behind it"
	}
	h.s.release(h.turn, dropped)
	return out
}
