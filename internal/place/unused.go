package place

import (
	"context"
	"time"
)

// unusedTime is how long an engine there has no job, process, variable, session of create_session or
// shell session before it is ended. An allocation has a time of its own.
const unusedTime = time.Minute

// attend serves a link until it is lost, the host is closed, or the engine is not used any more. It reports whether
// it has ended the engine for that.
func (h *host) attend(l *link) (ended bool) {
	h.launch(func() { h.followLate(l) })
	check := time.NewTicker(min(h.idleTime(), unusedTime) / 4)
	defer check.Stop()
	pause := retryWait // until a spent allocation is checked again
	for {
		h.deliverStops(l)
		h.deliverTrim(l)
		var soon <-chan time.Time
		if h.unusedFor() == 0 {
			soon, pause = time.After(pause), min(2*pause, unusedTime/4)
		} else {
			pause = retryWait
		}
		select {
		case <-l.lost:
			return false
		case <-h.ctx.Done():
			return false
		case <-h.wake:
			continue
		case <-check.C:
		case <-soon:
		}
		if h.takeUnused(l) {
			return h.endUnused(l)
		}
	}
}

// idleTime returns how long the engine is kept although nothing there is used.
func (h *host) idleTime() time.Duration {
	if h.seat != nil {
		return h.place.Idle
	}
	return unusedTime
}

// unusedFor is idleTime, or 0 if the allocation goes back as soon as nothing holds it.
func (h *host) unusedFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spent {
		return 0
	}
	return h.idleTime()
}

// takeUnused takes the link away if nothing here or there uses the engine, and reports whether it did. What comes
// from then on waits for the next engine: a job that reached one that ends could run twice.
func (h *host) takeUnused(l *link) bool {
	if !h.idle() {
		return false
	}
	ctx, cancel := context.WithTimeout(h.ctx, stopTime)
	defer cancel()
	state, err := l.client.State(ctx)
	if err != nil || !state.Unused || state.Since < h.unusedFor() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users() > 0 {
		return false
	}
	h.link = nil
	return true
}

// endUnused ends the engine, and reports whether it did.
func (h *host) endUnused(l *link) bool {
	ctx, cancel := context.WithTimeout(h.ctx, stopTime)
	defer cancel()
	if l.client.End(ctx) != nil {
		return false
	}
	select { // until it has ended, a carrier can still find it
	case <-l.lost:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetEngine() // nothing was lost
	return true
}
