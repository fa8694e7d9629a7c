package pyrepl

import (
	"context"
	"slices"

	"asyncrepl/jobs"
)

// A ticket is a place in a session's queue.
type ticket struct {
	port   *jobs.Port    // nil: not a job's
	resets bool          // it ends the namespace
	ready  chan struct{} // closed when the turn has come, or will not come
	err    error         // why it will not come; set before ready is closed
}

// job returns the id of the ticket's job, or "".
func (t *ticket) job() string {
	if t == nil || t.port == nil {
		return ""
	}
	return t.port.ID()
}

// A lostError says why a queued job was not run.
type lostError struct{ cause string }

func (e *lostError) Error() string { return "variables were lost in " + e.cause }

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

// release ends the turn of t. If its job lost the variables, lost names it: the jobs behind it are
// not run, unless a reset is queued: then they wait for the next worker anyway.
func (s *Session) release(t *ticket, lost string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != t {
		return
	}
	s.turn = nil
	if lost != "" && !s.resets() {
		s.dropQueue(lost)
	}
	if len(s.queue) > 0 {
		s.turn, s.queue = s.queue[0], s.queue[1:]
		close(s.turn.ready)
	}
}

// dropQueue ends the wait of every queued job, because the variables were lost in cause. Resets
// stay in the queue. The caller holds mu.
func (s *Session) dropQueue(cause string) {
	var rest []*ticket
	for _, q := range s.queue {
		if q.resets {
			rest = append(rest, q)
			continue
		}
		q.err = &lostError{cause}
		close(q.ready)
	}
	s.queue = rest
}

// resets reports whether a reset is queued or has the turn. Every job in the queue then came after
// it, for the next worker. The caller holds mu.
func (s *Session) resets() bool {
	return s.turn != nil && s.turn.resets || slices.ContainsFunc(s.queue, func(q *ticket) bool { return q.resets })
}
