package place

import (
	"context"
	"errors"
	"time"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/far"
	"asyncrepl/jobs"
)

// Reach opens the link that the jobs of a session of Python at a place use. It returns the greeting of its
// engine, and says where that is, if it is in an allocation. While Reach waits, waits gets each reason once. The error can
// be a *carry.Error.
func (ps *Places) Reach(ctx context.Context, name, session string, waits func(why string)) (g far.Greeting, where string, err error) {
	p, err := ps.place(name)
	if err != nil {
		return g, "", err
	}
	h, err := p.host(jobs.Python, session, "", "")
	if err != nil {
		return g, "", err
	}
	attempt := make(chan error, 1)
	go func() { // owned by Reach, which waits for it; ends with ctx or the attempt
		_, release, err := h.connect(ctx)
		if err == nil {
			release()
		}
		attempt <- err
	}()
	look := time.NewTicker(firstPoll / 4)
	defer look.Stop()
	for last := ""; ; {
		select {
		case err := <-attempt:
			if h.seat != nil {
				where, _ = h.seat.words()
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.engine, where, err
		case <-look.C:
			if h.seat == nil {
				continue
			}
			h.seat.mu.Lock()
			why := h.seat.state.Text
			h.seat.mu.Unlock()
			if why != "" && why != last {
				waits(why)
			}
			last = why
		}
	}
}

// Gone returns once the engine of a greeting has ended at a place that has no allocations, or an error.
func (ps *Places) Gone(ctx context.Context, name string, g far.Greeting) error {
	p, err := ps.place(name)
	if err != nil {
		return err
	}
	for {
		l, _, err := p.open(ctx, g)
		if errors.Is(err, carry.ErrGone) {
			return nil
		} else if err != nil {
			return err
		}
		select {
		case <-l.lost: // it was there for a moment longer
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if l.close(); err != nil {
			return err
		}
	}
}
