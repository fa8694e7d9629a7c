package place

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
)

// A host is one engine at a place, and the link to it. Its goroutine opens the link while a call or
// a job needs it, and closes it when the engine is not used any more.
type host struct {
	place *place
	name  string // names the host in the file of our engines
	seat  *seat  // the host's allocation; nil: the place has no scheduler

	ctx    context.Context // done when the host is closed
	cancel context.CancelFunc
	wake   chan struct{} // holds a token if run should check for work

	late lateJobs // the jobs that can print after their end

	// All below is guarded by mu.
	mu      sync.Mutex
	settled chan struct{} // closed, and replaced, when something below has changed

	// The link.
	link     *link     // nil: there is none
	attempts attempts  // to open it
	lost     time.Time // since when there is none although one is needed; zero: there is one
	heard    time.Time // when the engine was heard last; zero: never

	// The engine.
	engine far.Greeting    // the known engine; without a Start none is known
	era    context.Context // done, with an *engineLost as its cause, when the known engine is lost
	endEra context.CancelCauseFunc
	skew   skew
	rooms  map[room]bool   // the sessions that live there, and whether each can be kept there
	gone   map[room]string // why sessions have ended with an engine that was lost, until they are made again

	// What needs it here.
	claims  int              // what was expected: jobs until they have come, and calls until they have ended
	mirrors map[*mirror]bool // the jobs that need the link
	noted   []string         // the jobs in the file of our engines
	noting  bool             // noteJobs waits

	// What is to end there.
	stops    []*mirror // jobs that were given up
	trims    jobs.By   // what is not kept there ends for this cause; empty: it does not
	trimming bool      // the engine is asked to end it: what comes for the engine waits
	spent    bool      // the allocation goes back as soon as nothing holds it
}

var (
	errClosed = errors.New("this server is ending")
	errLost   = errors.New("the connection broke")
)

// newHost makes a host. The caller holds p.mu, and the place is not closed.
func (p *place) newHost(name string) *host {
	h := &host{place: p, name: name, mirrors: make(map[*mirror]bool), rooms: make(map[room]bool), wake: make(chan struct{}, 1), settled: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.era, h.endEra = context.WithCancelCause(context.Background())
	if p.allocator != nil {
		h.seat = &seat{place: p, host: h, before: p.leaving[name]}
	}
	p.hosts[name] = h
	p.set.running.Go(h.run) // owned by the close of the places, which waits for it; ends with h.ctx
	return h
}

// settle wakes what waits for a change. The caller holds h.mu.
func (h *host) settle() {
	close(h.settled)
	h.settled = make(chan struct{})
}

// idle reports whether nothing here needs the link.
func (h *host) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users() == 0
}

// users returns how many jobs and calls need the link, or will. The caller holds h.mu.
func (h *host) users() int { return len(h.mirrors) + h.claims }

// recheck makes run check for work.
func (h *host) recheck() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// launch starts a goroutine, unless the host is closed, and reports whether it did. The close of the places waits
// for it, so it must end with h.ctx.
func (h *host) launch(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.place.set.running.Go(f) // owned by the close of the places, which waits for it; ends with h.ctx at the latest
	return true
}

// stop ends the goroutines of the host. No other is started from then on.
func (h *host) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel()
}

// use makes the host hold its link for a job until release is called. It returns the context of the known engine.
func (h *host) use(m *mirror) (era context.Context, release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mirrors[m] = true
	h.claims--
	h.keepsFor(m)
	h.noteJobs()
	return h.era, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.mirrors, m)
		h.forget()
		h.settle()
		h.noteJobs()
	}
}

// keepsFor notes that the session of a job can be kept there, if the job is. The caller holds h.mu.
func (h *host) keepsFor(m *mirror) {
	r := room{jobs.Python, m.start.Session}
	if _, lives := h.rooms[r]; lives && m.start.Keep && m.start.Kind == jobs.Python {
		h.rooms[r] = true
	}
}

// expect announces a job or a call, which must come. It uses what is there.
func (h *host) expect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims++
	h.trims, h.spent = "", false
}

// unexpect takes an expect back.
func (h *host) unexpect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims--
}

// inUse reports whether an engine is known to be there.
func (h *host) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.engine.Start != "" || h.seat != nil && h.seat.held()
}

// changed wakes the jobs of the host: what is known of its allocation has changed.
func (h *host) changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range h.mirrors {
		m.port.Changed()
	}
}

// reaching says how long the present attempt to open a link has taken, if that is long.
func (h *host) reaching() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	took := time.Since(h.attempts.began)
	if h.attempts.began.IsZero() || took < reachingMost {
		return ""
	}
	return fmt.Sprintf("reaching %s for %s", h.place.Name, took.Round(time.Second))
}

// waitsFor says what a call waits for that gets no link, after a colon, if that is known.
func (h *host) waitsFor() string {
	if h.seat != nil {
		if _, queued := h.seat.words(); queued != "" {
			return ": " + line(queued)
		}
	}
	if text := h.reaching(); text != "" {
		return ": " + text
	}
	return ""
}

// reachingMost is how long a place can take to answer without a word about it.
const reachingMost = 2 * time.Second

// state returns what is known of the link.
func (h *host) state() (l jobs.Link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.link != nil || h.lost.IsZero() {
		return l
	}
	l.Lost, l.AsOf = h.lost, h.heard
	if h.attempts.why != nil {
		l.Why = whyLine(h.attempts.why)
	}
	return l
}

// describe sets the part of the state of its place that is the host's.
func (h *host) describe(ctx context.Context, o *overview.Place) {
	h.mu.Lock()
	l := h.link
	o.Version = line(h.engine.Version)
	switch {
	case l != nil:
		o.Reachable, o.Since = true, h.attempts.last
	case h.attempts.why != nil:
		o.Why, o.Since = whyLine(h.attempts.why), h.lost
	}
	h.mu.Unlock()
	var state *far.State
	if l != nil {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		if s, err := l.client.State(ctx); err == nil {
			state, o.Sessions = &s, s.Python
		}
	}
	if state == nil {
		o.Last = h.sessions()
	}
	where := ""
	if h.seat != nil {
		if a, ok := h.seat.describe(state); ok {
			a.Why = o.Why
			where, o.Allocations = a.Where, []overview.Allocation{a}
		}
	}
	for i := range o.Sessions { // whatever the engine says
		o.Sessions[i].Where = where
	}
}
