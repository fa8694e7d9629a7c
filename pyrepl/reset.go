package pyrepl

import (
	"context"
	"slices"
	"time"

	"asyncrepl/internal/runner"
	"asyncrepl/jobs"
)

// The end of a namespace takes effect in one step, under the session's lock: the
// jobs behind are told that they will not run, the running one is asked to end,
// and the end takes its place in the queue. What comes later finds that place
// taken and stands behind it, for the next worker. The rest, waiting for that
// turn and ending the worker, takes time and is nobody's order any more.

// restartStep is the time between the rungs of a restart.
const restartStep = time.Second

// Restart ends the worker and all that its jobs left behind: the running job is
// stopped, the queued ones are not run, and what is started once Restart has
// returned runs in an empty namespace. That it all has ended is waited for by
// wait, which need not be called. It reports whether there was a worker, and what
// could not be ended. Its error is the cause of ctx, and the restart goes on, or
// says that what is left of the worker could not be checked.
func (s *Session) Restart(by jobs.By, reason string) (wait func(ctx context.Context) (had bool, survivors []jobs.Process, err error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	stop := jobs.Stop{By: by, From: jobs.Terminate, Step: restartStep, Reason: reason}
	return s.vacate(stop, "a restart").wait, nil
}

// A vacating is the end of a namespace and of the worker that holds it.
type vacating struct {
	done chan struct{} // closed when the worker has ended

	// Set before done is closed.
	had       bool // there was one
	survivors []jobs.Process
	err       error // what is left of the worker could not be checked
}

// vacate ends the namespace: its jobs by st, those that wait are told that it was
// lost in what. The caller holds mu.
func (s *Session) vacate(st jobs.Stop, what string) *vacating {
	v := &vacating{done: make(chan struct{}), had: s.w != nil}
	s.dropQueue(what)
	if s.turn != nil && s.turn.port != nil {
		s.turn.port.Cancel(st)
	}
	t := &ticket{vacates: true, ready: make(chan struct{})}
	s.place(t)
	go func() { // owned by who waits for v; ends when the worker has, which the ladders of its job and its own bound
		defer close(v.done)
		<-t.ready
		defer s.release(t, "") // those behind it were sent for the next worker
		if w := s.disown(); w != nil {
			v.had = true
			result := w.end(st.From, st.Step)
			v.survivors, v.err = runner.Processes(result.Survivors), result.Err
		}
	}()
	return v
}

// wait waits until the worker has ended.
func (v *vacating) wait(ctx context.Context) (had bool, survivors []jobs.Process, err error) {
	select {
	case <-v.done:
		return v.had, v.survivors, v.err
	case <-ctx.Done():
		return false, nil, context.Cause(ctx)
	}
}

// disown takes the worker from the session, with all that was known of it.
func (s *Session) disown() *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.w
	s.w, s.names, s.asOf, s.news = nil, nil, "", ""
	return w
}

// vacates reports whether the namespace is about to be ended, or is being ended
// now. No job that is queued then was sent for it. The caller holds mu.
func (s *Session) vacates() bool {
	return s.turn != nil && s.turn.vacates || slices.ContainsFunc(s.queue, func(q *ticket) bool { return q.vacates })
}
