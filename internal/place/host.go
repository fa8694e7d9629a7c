package place

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/keyfile"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
)

// A host is one engine at a place, and the link to it. Its goroutine opens the link while a call or
// a job needs it, and closes it when the engine is not used any more.
type host struct {
	set   *Places
	place string // the name of the place
	name  string // its own name, in the file of our engines
	open  opener
	seat  *seat // its allocation; nil: it has none
	// unused is how long the engine is kept although nothing there is used.
	unused time.Duration
	over   func() // called when the engine has ended because nothing was used; nil: nothing is

	ctx    context.Context // done when the host is closed
	cancel context.CancelFunc
	wake   chan struct{} // holds a token if run should look for work

	late lateJobs // the jobs that can print after their end

	// Guarded by mu.
	mu       sync.Mutex
	running  bool            // run has been started
	link     *link           // nil: there is none
	engine   far.Greeting    // the engine that is known to be there; without a Start there is none
	era      context.Context // done, with an *engineLost as its cause, when the known engine is lost
	endEra   context.CancelCauseFunc
	asked    bool             // a call wants an attempt to open the link now
	attempts int              // the number of attempts that have ended
	failures int              // the number of the last ones in a row that have failed
	opening  time.Time        // when the present attempt began; zero: there is none
	tried    time.Time        // when the last one ended; if there is a link, since when
	why      error            // why it failed; nil: it did not
	lost     time.Time        // since when there is no link although one is needed; zero: there is one
	heard    time.Time        // when the engine was heard last; zero: never
	coming   int              // the jobs and calls that place.host was asked for, and that have not come yet
	calls    int              // the calls that wait for the link or use it
	mirrors  map[*mirror]bool // the jobs that need the link
	closing  bool             // goodbye was called
	mayKeep  bool             // the engine can keep a session: it was left by an earlier server, or a job of Python was kept
	keeps    bool             // the host is closed, and some of its jobs or sessions continue there
	rooms    map[room]bool    // the sessions that live there
	noted    []string         // the jobs in the file of our engines
	noting   bool             // noteJobs waits
	settled  chan struct{}    // closed, and replaced, when something of the above has changed
	offset   time.Duration    // what our clock is ahead of the engine's
	measured bool             // offset is known
	stops    []*mirror        // jobs that were given up, and are to be ended there
	trims    jobs.By          // what is not kept there is to be ended for this cause; empty: it is not
	trimming bool             // it is being ended: what comes for the engine waits
	spent    bool             // the allocation goes back as soon as nothing holds it
}

// An opener opens a link. known is the engine that must be there; without a Start, one is started
// if there is none.
type opener func(ctx context.Context, known far.Greeting) (*link, far.Greeting, error)

var (
	errClosed = errors.New("this server is ending")
	errLost   = errors.New("the connection broke")
)

func newHost(ps *Places, place, name string) *host {
	h := &host{set: ps, place: place, name: name, unused: unusedTime, mirrors: make(map[*mirror]bool), rooms: make(map[room]bool), wake: make(chan struct{}, 1), settled: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.era, h.endEra = context.WithCancelCause(context.Background())
	return h
}

const (
	firstWait = time.Second      // before the second attempt in a row
	mostWait  = time.Minute      // between two attempts
	finalWait = 10 * time.Second // before a call repeats an attempt that only a person can make succeed
)

// backoff returns how long to wait after a number of failures in a row: 0, 1, 2, 4 … 60 s.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(firstWait<<min(failures-1, 6), mostWait)
}

// final reports whether an attempt failed for a reason that time does not cure.
func final(err error) bool {
	e, ok := errors.AsType[*carry.Error](err)
	return ok && e.Final
}

// seatAttempts is how many attempts in a row a job waits for if its allocation runs and the carrier gets in, but breaks.
const seatAttempts = 3

// tryAgain reports whether a job waits for the next attempt to reach an allocation that runs. The allocation may have
// waited for hours, and srun hangs or fails while slurmctld is restarted. But what fails there each time is said. The
// caller holds h.mu.
func (h *host) tryAgain() bool {
	e, ok := errors.AsType[*carry.Error](h.why)
	return h.seat != nil && ok && !e.Final && (e.Step == carry.Reach || h.failures < seatAttempts)
}

// run opens links until the host is closed.
func (h *host) run() {
	for h.needed() {
		h.mu.Lock()
		known := h.engine
		h.opening = time.Now()
		h.mu.Unlock()
		l, greeting, err := h.open(h.ctx, known)
		if !h.opened(l, greeting, err) {
			if l != nil {
				l.close()
			}
			continue
		}
		h.set.disown(greeting)
		ended := h.attend(l)
		h.closed(l)
		if ended && h.over != nil {
			h.over()
		}
	}
}

// needed waits until an attempt to open the link is due, and reports false if the host is closed.
func (h *host) needed() bool {
	for h.ctx.Err() == nil {
		h.mu.Lock()
		asked, left := h.asked, backoff(h.failures)-time.Since(h.tried)
		users := (len(h.mirrors)+len(h.stops) > 0 || h.trims != "") && !final(h.why)
		h.mu.Unlock()
		if asked || users && left <= 0 {
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
		h.lose(&engineLost{why: fmt.Sprintf("the engine on %s is gone", h.place), served: true})
	}
	h.attempts++
	h.asked, h.tried, h.why, h.opening = false, time.Now(), err, time.Time{}
	switch {
	case err == nil:
		h.link, h.engine, h.lost = l, greeting, time.Time{}
		h.note()
	case gone: // the next attempt starts another engine, at once
		h.failures, h.why = 0, nil
	default:
		h.failures++
		if h.lost.IsZero() {
			h.lost = h.tried
		}
		if h.ctx.Err() == nil {
			h.set.Log.Info("a place is out of reach", "place", h.place, "error", err)
		}
	}
	h.settle()
	return err == nil
}

// An engineLost says why an engine has ended with all that it had, in the words of a receipt.
type engineLost struct {
	why    string
	served bool   // jobs have been sent to it; the others can go to the next one
	where  string // its allocation; empty: it had none
}

func (e *engineLost) Error() string { return e.why }

// lose forgets the known engine, which has ended. The caller holds h.mu.
func (h *host) lose(why *engineLost) {
	for _, m := range h.stops {
		h.set.running.Go(func() { h.amend(m, "it has ended there with its engine") }) // owned by the close of the places, which waits for it; ends with the job here, which has been ended
	}
	h.engine, h.measured, h.stops, h.trims, h.mayKeep = far.Greeting{}, false, nil, "", false
	h.endEra(why)
	h.era, h.endEra = context.WithCancelCause(context.Background())
	h.vacate()
	h.note()
}

// vacate notes that no session lives there any more. The caller holds h.mu.
func (h *host) vacate() {
	for r := range h.rooms {
		h.set.leave(r)
	}
	clear(h.rooms)
}

// leaveAll is vacate for a caller that does not hold h.mu.
func (h *host) leaveAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vacate()
}

// abandon notes that the host has neither an engine nor an allocation any more.
func (h *host) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine = far.Greeting{}
	h.vacate()
	h.note()
}

// settle wakes what waits for a change. The caller holds h.mu.
func (h *host) settle() {
	close(h.settled)
	h.settled = make(chan struct{})
}

// closed records that the link is lost, or was closed because the engine was not used.
func (h *host) closed(l *link) {
	l.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.link, h.heard = nil, l.heard()
	if h.engine.Start != "" && len(h.mirrors)+h.calls > 0 {
		h.lost, h.why = time.Now(), errLost
	}
	// It is opened again at once, unless it was lost as soon as it was there.
	if h.failures++; time.Since(h.tried) >= firstWait {
		h.failures = 0
	}
	h.settle()
}

// unusedTime is how long an engine there has no job, process, variable or shell session before it
// is ended. An allocation has a time of its own.
const unusedTime = time.Minute

// attend serves a link until it is lost, the host is closed, or the engine is not used any more. It reports whether
// it has ended the engine for that.
func (h *host) attend(l *link) (ended bool) {
	h.launch(func() { h.followLate(l) })
	check := time.NewTicker(min(h.unused, unusedTime) / 4)
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

// unusedFor returns how long the engine is kept although nothing there is used.
func (h *host) unusedFor() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spent {
		return 0
	}
	return h.unused
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
	if l.client.End(ctx, true) != nil {
		return false
	}
	select { // until it has ended, a carrier can still find it
	case <-l.lost:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine, h.measured = far.Greeting{}, false // nothing was lost
	h.vacate()
	h.note()
	return true
}

// idle reports whether nothing here needs the link.
func (h *host) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users() == 0
}

// users returns how many jobs and calls need the link, or will. The caller holds h.mu.
func (h *host) users() int { return len(h.mirrors) + h.calls + h.coming }

// begin starts run if it does not run yet, and makes it look for work. The caller holds h.mu.
func (h *host) begin() {
	if !h.running && h.ctx.Err() == nil {
		h.running = true
		h.set.running.Go(h.run) // owned by the close of the places, which waits for it; ends with h.ctx
	}
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
	h.set.running.Go(f) // owned by the close of the places, which waits for it; ends with h.ctx at the latest
	return true
}

// stop ends the goroutines of the host. No other is started from then on.
func (h *host) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel()
}

// ask makes run try at once to open the link, because a call needs it. It does nothing if the last attempt has just
// failed for a reason that only a person can remove. The caller holds h.mu.
func (h *host) ask() {
	if !final(h.why) || time.Since(h.tried) >= finalWait {
		h.asked = true
		h.begin()
	}
}

// connect returns the link, for a call that was announced, and holds it until release is called. If there is none,
// it makes one attempt to open it, and returns its error.
func (h *host) connect(ctx context.Context) (l *link, release func(), err error) {
	h.mu.Lock()
	h.coming--
	h.calls++
	h.mu.Unlock()
	release = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls--
		h.forget()
	}
	if l, _, err = h.await(ctx, true, false); err != nil {
		release()
	}
	return l, release, err
}

// present returns the context of the engine that is known.
func (h *host) present() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.era
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
	for attempts := h.attempts; ; {
		waits := patient && (h.engine.Start != "" || h.tryAgain())
		switch {
		case h.ctx.Err() != nil:
			return nil, nil, errClosed
		case h.link != nil && !h.trimming:
			return h.link, h.era, nil
		case h.attempts > attempts && h.why != nil && !waits:
			return nil, nil, h.why
		}
		if call && (h.attempts == attempts || h.why == nil) {
			h.ask()
		}
		if final(h.why) && !h.asked && !waits { // no attempt will be made
			return nil, nil, h.why
		}
		h.begin()
		if err := h.change(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// use makes the host hold its link for a job until release is called.
func (h *host) use(m *mirror) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mirrors[m] = true
	h.coming--
	h.mayKeep = h.mayKeep || m.start.Keep && m.start.Kind == jobs.Python
	h.noteJobs()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.mirrors, m)
		h.forget()
		h.settle()
		h.noteJobs()
	}
}

// noteTime is how long a job runs before the file of our engines has it. Most have ended by then, and cost no write.
const noteTime = time.Second

// noteJobs notes the jobs of the host in noteTime, so that people find them if this server is killed. The caller
// holds h.mu.
func (h *host) noteJobs() {
	if h.set.File == nil || h.noting || h.ctx.Err() != nil {
		return
	}
	h.noting = true
	time.AfterFunc(noteTime, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.noting = false
		if h.ctx.Err() == nil && !slices.Equal(h.noted, h.jobs()) {
			h.note()
		}
	})
}

// jobs returns the ids of the jobs that need the link, the newest if there are many. The caller holds h.mu.
func (h *host) jobs() (ids []string) {
	for m := range h.mirrors {
		ids = append(ids, m.port.ID())
	}
	slices.Sort(ids)
	return ids[max(0, len(ids)-keyfile.MaxJobs):]
}

// forget notes that no session lives there if no engine does and nothing comes that would start one: the attempt to
// start it has failed. The caller holds h.mu.
func (h *host) forget() {
	if h.engine.Start == "" && h.users() == 0 {
		h.vacate()
	}
}

// expect announces a job or a call, which must come. It uses what is there.
func (h *host) expect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.coming++
	h.trims, h.spent = "", false
}

// unexpect takes an expect back.
func (h *host) unexpect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.coming--
}

// enters notes that a session lives there.
func (h *host) enters(r room) {
	if r.name == "" || h.set.enter(h.place, r) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.rooms[r] {
		h.rooms[r] = true
		h.note()
	}
}

// has reports whether a session lives there.
func (h *host) has(r room) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rooms[r]
}

// leaves notes that a call has ended a session there. An allocation that only the session held goes back.
func (h *host) leaves(r room) {
	h.set.forget(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rooms, r)
	h.note()
	if h.spent = h.seat != nil && len(h.rooms) == 0; h.spent {
		h.begin()
	}
}

// note writes what the host has into the file of our engines. The caller holds h.mu.
func (h *host) note() {
	file := h.set.File
	if file == nil || !h.set.listed(h.place) { // a removed place keeps what is noted
		return
	}
	var err error
	if h.engine.Start == "" && (h.seat == nil || !h.seat.held()) {
		err = file.Remove(h.name)
	} else {
		h.noted = h.jobs()
		e := keyfile.Engine{Place: h.place, Greeting: h.engine, Jobs: h.noted}
		if h.seat != nil {
			e.Allocation, e.Job = h.seat.noted()
		}
		for r := range h.rooms {
			e.Sessions = append(e.Sessions, keyfile.Session{Kind: r.kind, Name: r.name})
		}
		err = file.Set(h.name, e)
	}
	if err != nil {
		h.set.Log.Warn("a later server may not find what this one has at a place", "place", h.place, "error", err)
	}
}

// renote is note for a caller that does not hold h.mu.
func (h *host) renote() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note()
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
	took := time.Since(h.opening)
	if h.opening.IsZero() || took < reachingMost {
		return ""
	}
	return fmt.Sprintf("reaching %s for %s", h.place, took.Round(time.Second))
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
	if h.why != nil {
		l.Why = whyLine(h.why)
	}
	return l
}

// shift returns what must be added to times of the engine. now is when it has said so by its clock.
func (h *host) shift(now time.Time) time.Duration {
	d := time.Since(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	// A message is never early, so the smallest difference is the best. A clock that was set counts anew.
	if !h.measured || d < h.offset || d > h.offset+time.Minute {
		h.offset, h.measured = d, true
	}
	return h.offset
}

// describe sets the part of the state of its place that is the host's.
func (h *host) describe(ctx context.Context, o *overview.Place) {
	h.mu.Lock()
	l := h.link
	o.Version = line(h.engine.Version)
	switch {
	case l != nil:
		o.Reachable, o.Since = true, h.tried
	case h.why != nil:
		o.Why, o.Since = whyLine(h.why), h.lost
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

// goodbye ends what the engine does not keep, waits for the ends of these jobs until ctx is done, and closes the
// host. What is kept continues there.
func (h *host) goodbye(ctx context.Context) {
	defer h.stop()
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	var state far.State
	asked := false
	if l := h.connected(); l != nil {
		var err error
		if state, err = l.client.State(ctx); err == nil {
			asked = true
			err = l.client.End(ctx, true)
		}
		if err != nil {
			h.set.Log.Info("a place does not know of the end of this server", "place", h.place, "error", err)
		} else {
			h.awaitEnds(ctx, state.Keeps)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keeps = state.Keeps || h.kept() > 0 || !asked && h.mayKeep; h.keeps {
		h.note()
	}
}

// closes reports whether the engine was asked to end its jobs, or will be at once.
func (h *host) closes() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closing
}

// awaitEnds waits for the jobs that are not kept. If nothing is kept, the engine has ended with them.
func (h *host) awaitEnds(ctx context.Context, keeps bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.link != nil {
		kept := h.kept()
		if kept == len(h.mirrors) {
			if kept == 0 && !keeps {
				h.engine = far.Greeting{}
				h.note()
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

// giveBack ends the allocation of the closed host, unless jobs in it are kept.
func (h *host) giveBack(ctx context.Context) {
	h.mu.Lock()
	keeps := h.keeps
	h.mu.Unlock()
	if h.seat == nil || keeps {
		return
	}
	h.seat.release(ctx)
	h.abandon()
}
