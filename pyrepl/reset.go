package pyrepl

import (
	"context"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/jobs"
)

// A reset ends a namespace and the worker that holds it. It takes effect in one step, under the
// session's lock: the queued jobs are dropped, the running one is asked to end, and the reset takes
// its place in the queue. Jobs that are queued later run after it, on the next worker. Waiting for
// its turn and ending the worker take time, but no longer decide the order.

// resetStep is the time between the rungs of a reset.
const resetStep = time.Second

// An End says how a session's worker ended at a restart or at the end of the session.
type End struct {
	Had         bool // there was a worker
	Survivors   []jobs.Process
	Note        string // the exit of Python may have left something undone; empty: it did not
	Checkpoints string // the checkpoints that were dropped or are gone; empty: none
}

// Restart ends the worker and all that its jobs left behind: the running job is stopped, queued
// jobs are not run, and a job that is started after Restart has returned runs in an empty
// namespace. An idle worker has a second to exit as Python does. The error says that the session
// has been closed.
//
// The function it returns waits until everything has ended; it need not be called. Its error is the
// cause of ctx, and the restart continues, or says that the rest of the worker's tree could not be
// checked.
func (s *Session) Restart(by jobs.By, reason string) (wait func(ctx context.Context) (End, error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	stop := jobs.Stop{By: by, From: jobs.Terminate, Step: resetStep, Reason: reason}
	return s.reset(stop, "a restart", nil).wait, nil
}

// Delete ends the session for good, and its worker as [Session.Restart] does: the running job is
// stopped, queued jobs are not run, and later calls are refused. The error says that the session
// has been closed before.
func (s *Session) Delete(by jobs.By, reason string) (wait func(ctx context.Context) (End, error), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	return s.remove(jobs.Stop{By: by, From: jobs.Terminate, Step: resetStep, Reason: reason}), nil
}

// DeleteIdle deletes the session if no job uses it, and reports whether it did. The loss names its
// variables, with how as the reason; it is nil if no Python was running.
func (s *Session) DeleteIdle(how string) (loss *Loss, ok bool) {
	loss = s.Lost()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.turn != nil {
		return nil, false
	}
	if loss == nil && s.w != nil {
		loss = &Loss{Session: s.name, Job: s.w.LastJob(), How: how, Names: s.names}
	}
	if loss != nil {
		loss.Checkpoints = s.checkpoints.Dropped(s)
	}
	s.remove(jobs.Stop{By: jobs.Limit, From: jobs.Terminate, Step: resetStep})
	return loss, true
}

// remove closes the session and ends its worker as st says. The caller holds mu.
func (s *Session) remove(st jobs.Stop) (wait func(ctx context.Context) (End, error)) {
	re := s.reset(st, "the end of the session", nil)
	re.end.Checkpoints = s.checkpoints.Dropped(s)
	s.closed = true
	return re.wait
}

// A resetting is a reset that may not have ended the worker yet.
type resetting struct {
	next *Session      // the session continues with its variables; nil: without variables
	done chan struct{} // closed when the worker has ended

	// Set before done is closed.
	end End
	err error // the rest of the worker's tree could not be checked
}

// reset ends the namespace: st stops its running job, and the queued ones are dropped because of
// cause. The session continues as next, or without variables. The caller holds mu.
func (s *Session) reset(st jobs.Stop, cause string, next *Session) *resetting {
	re := &resetting{next: next, done: make(chan struct{}), end: End{Had: s.w != nil}}
	s.dropQueue(lostIn(cause))
	if s.cfg.OnReset != nil {
		s.cfg.OnReset()
	}
	if s.turn != nil && s.turn.port != nil {
		s.turn.port.Cancel(st)
	}
	if s.turn != nil && s.turn.cancelFork != nil {
		s.turn.cancelFork()
	}
	t := &ticket{resets: true, ready: make(chan struct{})}
	s.push(t)
	go s.endWorker(t, st, re) // owned by the callers of wait, if there are any; ends when the worker has, within the steps of st
	return re
}

// endWorker waits for the turn of t and ends the worker as st says.
func (s *Session) endWorker(t *ticket, st jobs.Stop, re *resetting) {
	defer close(re.done)
	<-t.ready
	defer s.release(t, "") // the jobs behind it are for the next worker
	defer s.dropIfClosed()
	if re.next != nil {
		defer s.continueAs(re.next)
	}
	w := s.detach()
	if w == nil {
		return
	}
	re.end.Had = true
	l := process.Ladder{From: st.From, Step: st.Step}
	if w.AskExit() {
		l.Exit = resetStep
	}
	result := w.End(l)
	re.end.Survivors, re.err = runner.Processes(result.Survivors), result.Err
	if l.Exit > 0 {
		re.end.Note = exitNote(w, result.Needed)
	}
}

// wait waits until the worker has ended.
func (re *resetting) wait(ctx context.Context) (End, error) {
	select {
	case <-re.done:
		return re.end, re.err
	case <-ctx.Done():
		return End{}, context.Cause(ctx)
	}
}
