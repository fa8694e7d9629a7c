package place

import (
	"context"
	"sync"
	"time"
)

// Turns keep the order of the calls for a session: those that start jobs, and those that are sent on. Each waits until
// those before it have taken effect there, because the engine can serve two requests of one link in any order.
type turns struct {
	mu   sync.Mutex
	last map[room]*turn // the turn of a session's newest job or call, until it has passed
}

// beginTime bounds how long the next call waits for one that is sent on to take effect. A restart needs a hundredth of
// it, but one that waits for a busy Python must not stop the session.
const beginTime = time.Second

// A turn is the place of one job, or of one call that is sent on, in the order of its session.
type turn struct {
	of     *turns
	room   room
	before *turn         // the turn before this one; nil: all earlier ones have passed
	passed chan struct{} // closed when the job has been answered, or will not be sent
	once   sync.Once
}

// take returns the turn of a job, or nil if its session has no name: there is no order then.
func (ts *turns) take(r room) *turn {
	if r.name == "" {
		return nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.last == nil {
		ts.last = make(map[room]*turn)
	}
	t := &turn{of: ts, room: r, before: ts.last[r], passed: make(chan struct{})}
	ts.last[r] = t
	return t
}

// pass notes that the job has been answered, or that it will not be sent.
func (t *turn) pass(answered bool) {
	if t == nil {
		return
	}
	t.once.Do(func() {
		if answered { // and so have those before it
			t.before = nil
		}
		close(t.passed)
		t.of.mu.Lock()
		defer t.of.mu.Unlock()
		if t.of.last[t.room] == t && t.before == nil {
			delete(t.of.last, t.room)
		}
	})
}

// beforeIt waits until the jobs before that of the turn have been answered.
func (t *turn) beforeIt(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.before.await(ctx)
}

// await waits until the job of the turn and those before it have been answered.
func (t *turn) await(ctx context.Context) error {
	for ; t != nil; t = t.before {
		select {
		case <-t.passed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
