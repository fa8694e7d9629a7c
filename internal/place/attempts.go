package place

import (
	"context"
	"errors"
	"fmt"
	"time"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/far"
)

const (
	firstWait = time.Second      // before the second attempt in a row
	mostWait  = time.Minute      // between two attempts
	finalWait = 10 * time.Second // before a call repeats an attempt that only a person can make succeed
)

// Attempts are those to open the link of a host, whose lock guards them.
type attempts struct {
	wanted bool      // a call wants one now
	early  bool      // the present one is made for a call, before it is due
	ended  int       // how many have ended
	failed int       // how many of the last ones that were due have failed, in a row
	began  time.Time // when the present one began; zero: there is none
	last   time.Time // when the last one ended; if there is a link, since when
	why    error     // why it failed; nil: it did not
}

// left returns how long it is until the next attempt is due.
func (a *attempts) left() time.Duration { return backoff(a.failed) - time.Since(a.last) }

// begin notes that an attempt begins.
func (a *attempts) begin() { a.began, a.early = time.Now(), a.left() > 0 }

// end notes that the attempt has ended. Calls can make many attempts: the time of the next one that is made without a
// call does not depend on them.
func (a *attempts) end(err error) {
	a.ended++
	a.wanted, a.began, a.last, a.why = false, time.Time{}, time.Now(), err
	if err != nil && !a.early {
		a.failed++
	}
}

// final reports whether the last attempt failed for a reason that time does not cure.
func (a *attempts) final() bool {
	e, ok := errors.AsType[*carry.Error](a.why)
	return ok && e.Final
}

// backoff returns how long to wait after a number of failures in a row: 0, 1, 2, 4 … 60 s.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(firstWait<<min(failures-1, 6), mostWait)
}

// seatAttempts is how many attempts in a row a job waits for if its allocation runs and the carrier gets in, but breaks.
const seatAttempts = 3

// tryAgain reports whether a job waits for the next attempt to reach an allocation that runs. The allocation may have
// waited for hours, and srun hangs or fails while slurmctld is restarted. But what fails there each time is said. The
// caller holds h.mu.
func (h *host) tryAgain() bool {
	e, ok := errors.AsType[*carry.Error](h.attempts.why)
	return h.seat != nil && ok && !e.Final && (e.Step == carry.Reach || h.attempts.failed < seatAttempts)
}

// run opens links until the host is closed.
func (h *host) run() {
	for h.needed() {
		h.mu.Lock()
		known := h.engine
		h.attempts.begin()
		h.mu.Unlock()
		l, greeting, err := h.open(h.ctx, known)
		if !h.opened(l, greeting, err) {
			if l != nil {
				l.close()
			}
			continue
		}
		h.place.set.disown(greeting)
		ended := h.attend(l)
		h.closed(l)
		if ended && h.seat != nil {
			h.place.drop(h)
		}
	}
}

// open opens a link. known is the engine that must be there; without a Start, one is started if there is none.
func (h *host) open(ctx context.Context, known far.Greeting) (*link, far.Greeting, error) {
	switch {
	case h.place.removed:
		return nil, far.Greeting{}, errRemoved
	case h.seat != nil:
		return h.seat.open(ctx, known)
	}
	return h.place.open(ctx, known)
}

// needed waits until an attempt to open the link is due, and reports false if the host is closed.
func (h *host) needed() bool {
	for h.ctx.Err() == nil {
		h.mu.Lock()
		wanted, left := h.attempts.wanted, h.attempts.left()
		users := (len(h.mirrors)+len(h.stops) > 0 || h.trims != "") && !h.attempts.final()
		h.mu.Unlock()
		if wanted || users && left <= 0 {
			return true
		}
		var due <-chan time.Time
		if users {
			due = time.After(left)
		}
		select {
		case <-due:
		case <-h.wake:
		case <-h.ctx.Done():
		}
	}
	return false
}

// opened records the result of an attempt, and reports whether it has led to the right engine.
func (h *host) opened(l *link, greeting far.Greeting, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.engine
	gone := errors.Is(err, carry.ErrGone) && known.Start != ""
	lost, ended := errors.AsType[*engineLost](err)
	switch {
	case ended: // its allocation has
		h.lose(lost)
	case err != nil && !gone, known.Start == "", greeting.Start == known.Start && !gone:
	case greeting.Machine != known.Machine:
		gone, err = false, fmt.Errorf("another machine has answered, %q instead of %q; if that one is gone for good, give the place another name in the file of places", greeting.Machine, known.Machine)
	default:
		h.lose(&engineLost{why: fmt.Sprintf("the engine on %s is gone", h.place.Name), served: true})
	}
	h.attempts.end(err)
	switch {
	case err == nil:
		h.link, h.engine, h.lost = l, greeting, time.Time{}
		h.note()
	case gone: // the next attempt starts another engine, at once
		h.attempts.failed, h.attempts.why = 0, nil
	default:
		if h.lost.IsZero() {
			h.lost = h.attempts.last
		}
		if h.ctx.Err() == nil {
			h.place.set.Log.Info("a place is out of reach", "place", h.place.Name, "error", err)
		}
	}
	h.settle()
	return err == nil
}

// closed records that the link is lost, or was closed because the engine was not used.
func (h *host) closed(l *link) {
	l.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.link, h.heard = nil, l.heard()
	if h.engine.Start != "" && h.users() > 0 {
		h.lost, h.attempts.why = time.Now(), errLost
	}
	// It is opened again at once, unless it was lost as soon as it was there.
	if h.attempts.failed++; time.Since(h.attempts.last) >= firstWait {
		h.attempts.failed = 0
	}
	h.settle()
}

// ask makes run try at once to open the link, because a call needs it. It does nothing if the last attempt has just
// failed for a reason that only a person can remove. The caller holds h.mu.
func (h *host) ask() {
	if !h.attempts.final() || time.Since(h.attempts.last) >= finalWait {
		h.attempts.wanted = true
		h.recheck()
	}
}

// connect returns the link, for a call that was announced, and holds it until release is called. If there is none,
// it makes one attempt to open it, and returns its error.
func (h *host) connect(ctx context.Context) (l *link, release func(), err error) {
	release = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.claims--
		h.forget()
	}
	if l, _, err = h.await(ctx, true, false); err != nil {
		release()
	}
	return l, release, err
}

// current returns the link. If there is none, it returns nil, and makes run try to open one for the caller's call.
func (h *host) current() *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.link == nil {
		h.ask()
	}
	return h.link
}

// connected returns the link, or nil if there is none.
func (h *host) connected() *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.link
}

// change waits until something has changed. The caller holds h.mu, which is free meanwhile.
func (h *host) change(ctx context.Context) error {
	settled := h.settled
	h.mu.Unlock()
	defer h.mu.Lock()
	select {
	case <-settled:
		return nil
	case <-h.ctx.Done():
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await returns the link, and a context that is done once its engine is lost. If there is none, it waits until an
// attempt to open it has ended, and returns the error of that. With patient it waits for the next attempt if an
// engine is known, because the job can be there, and for some if an allocation runs. With call the first attempt is
// made at once.
func (h *host) await(ctx context.Context, call, patient bool) (l *link, era context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &h.attempts
	for ended := a.ended; ; {
		waits := patient && (h.engine.Start != "" || h.tryAgain())
		switch {
		case h.ctx.Err() != nil:
			return nil, nil, errClosed
		case h.link != nil && !h.trimming:
			return h.link, h.era, nil
		case a.ended > ended && a.why != nil && !waits:
			return nil, nil, a.why
		}
		if call && (a.ended == ended || a.why == nil) {
			h.ask()
		}
		if a.final() && !a.wanted && !waits { // no attempt will be made
			return nil, nil, a.why
		}
		h.recheck()
		if err := h.change(ctx); err != nil {
			return nil, nil, err
		}
	}
}
