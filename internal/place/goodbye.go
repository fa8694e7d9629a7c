package place

import (
	"context"
	"time"

	"asyncrepl/internal/place/far"
	"asyncrepl/jobs"
)

// goodbye ends what the engine does not keep, waits for the ends of these jobs until ctx is done, and closes the
// host. It reports whether something is kept, or can be: that continues there.
func (h *host) goodbye(ctx context.Context) (keeps bool) {
	defer h.stop()
	var state far.State
	asked := false
	if l := h.lastLink(ctx); l != nil {
		var err error
		if state, err = l.client.State(ctx); err == nil {
			asked = true
			err = l.client.End(ctx)
		}
		if err != nil {
			h.place.set.Log.Info("a place does not know of the end of this server", "place", h.place.Name, "error", err)
		} else {
			h.awaitEnds(ctx, state.Keeps)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if keeps = state.Keeps || h.kept() > 0 || !asked && h.mayKeep(); keeps {
		h.note()
	}
	return keeps
}

// lastTime bounds how long a goodbye takes to reach an engine that has no link.
const lastTime = 2 * time.Second

// lastLink returns the link for the goodbye. If there is none, because nothing has needed it, it is opened: the engine
// may be one that an earlier server has left. A place that is out of reach is left to linger.
func (h *host) lastLink(ctx context.Context) *link {
	h.mu.Lock()
	l := h.link
	reachable := h.engine.Start != "" && (h.attempts.why == nil || h.attempts.why == errLost)
	h.mu.Unlock()
	if l != nil || !reachable {
		return l
	}
	ctx, cancel := context.WithTimeout(ctx, lastTime)
	defer cancel()
	l, _, _ = h.await(ctx, true, false) // an error: it is out of reach
	return l
}

// awaitEnds waits for the jobs that are not kept. If nothing is kept, the engine has ended with them.
func (h *host) awaitEnds(ctx context.Context, keeps bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.link != nil {
		kept := h.kept()
		if kept == len(h.mirrors) {
			if kept == 0 && !keeps {
				h.forgetEngine()
			}
			return
		}
		if h.change(ctx) != nil {
			return
		}
	}
}

// kept returns how many jobs continue after the end of this server. The caller holds h.mu.
func (h *host) kept() (n int) {
	for m := range h.mirrors {
		if m.start.Keep {
			n++
		}
	}
	return n
}

// trim makes the engine end what is not kept there, once there is a link.
func (h *host) trim(cause jobs.By) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.engine.Start != "" {
		h.trims = cause
		h.recheck()
	}
}

// deliverTrim ends what is not kept there, if that is wanted. What comes for the engine meanwhile waits, because it
// must not be ended with the rest.
func (h *host) deliverTrim(l *link) {
	h.mu.Lock()
	cause := h.trims
	h.trimming = cause != ""
	h.mu.Unlock()
	if cause == "" {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, stopTime)
	err := l.client.Trim(ctx, cause)
	cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trimming = false
	if h.trims != "" && (err == nil || isRefused(err)) { // else it is repeated, unless something has come
		h.trims, h.spent = "", h.seat != nil
	}
	h.settle()
}
