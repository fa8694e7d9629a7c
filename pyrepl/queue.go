package pyrepl

import (
	"context"
	"slices"
	"time"

	"asyncrepl/jobs"
)

// A ticket is a place in a session's queue.
type ticket struct {
	port       *jobs.Port    // nil: the place is not for a job
	resets     bool          // it ends the namespace
	cancelFork func()        // cancels the fork that the holder of the turn makes; nil: none
	ready      chan struct{} // closed when the turn has come, or will not come
	err        error         // why the turn will not come; set before ready is closed
}

// job returns the id of the ticket's job, or "".
func (t *ticket) job() string {
	if t == nil || t.port == nil {
		return ""
	}
	return t.port.ID()
}

// A droppedError says why a queued job was not run.
type droppedError struct{ reason string }

func (e *droppedError) Error() string { return e.reason }

// lostIn returns the reason for which jobs are dropped that were queued when the variables were
// lost in cause.
func lostIn(cause string) string { return "variables were lost in " + cause }

// enqueue takes a job's place in the queue, which is first in, first out.
func (s *Session) enqueue(p *jobs.Port) *ticket {
	t := &ticket{port: p, ready: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		t.err = errClosed
		close(t.ready)
	} else {
		s.taken++
		s.push(t)
	}
	return t
}

// push puts t at the end of the queue. The caller holds mu.
func (s *Session) push(t *ticket) {
	if s.turn == nil {
		s.turn = t
		close(t.ready)
		return
	}
	s.queue = append(s.queue, t)
}

// await waits for the turn of t. Its error is why the turn will not come, or the cause of ctx.
func (s *Session) await(ctx context.Context, t *ticket) error {
	select {
	case <-t.ready:
	case <-ctx.Done():
		if s.withdraw(t) {
			return context.Cause(ctx)
		}
		<-t.ready // the turn came at the same moment
	}
	if t.err == nil && ctx.Err() != nil {
		s.release(t, "")
		return context.Cause(ctx)
	}
	return t.err
}

// withdraw takes t out of the queue and reports whether it was there.
func (s *Session) withdraw(t *ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, t)
	if i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	return i >= 0
}

// release ends the turn of t. If dropped is not empty, it says why the jobs queued behind t must
// not run. If a reset is queued they stay all the same, because they wait for the next worker.
func (s *Session) release(t *ticket, dropped string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != t {
		return
	}
	s.turn = nil
	if t.port != nil {
		s.used = time.Now()
	}
	if dropped != "" && !s.resets() {
		s.dropQueue(dropped)
	}
	if len(s.queue) > 0 {
		s.turn, s.queue = s.queue[0], s.queue[1:]
		close(s.turn.ready)
	}
}

// dropQueue ends the wait of every queued job for a reason. Resets stay in the queue. The caller
// holds mu.
func (s *Session) dropQueue(reason string) {
	var rest []*ticket
	for _, q := range s.queue {
		if q.resets {
			rest = append(rest, q)
			continue
		}
		q.err = &droppedError{reason}
		close(q.ready)
	}
	s.queue = rest
}

// resetWaits reports whether a reset waits for the running job to end, and will end the worker.
func (s *Session) resetWaits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resets()
}

// resets reports whether a reset is queued or has the turn. If so, every queued job was started
// after it and is for the next worker. The caller holds mu.
func (s *Session) resets() bool {
	return s.turn != nil && s.turn.resets || slices.ContainsFunc(s.queue, func(q *ticket) bool { return q.resets })
}
