//go:build unix

package tty

import (
	"context"
	"sync"
	"time"
)

// The schedule. A look comes when the terminal has been quiet for settleTime; after it the clocks of the job's
// processes are asked every tickTime, and a look follows only where one has moved. A job that is known to wait is asked every
// restTime: what ends its wait is nearly always input or output, and these are told. Flowing output puts a look off by
// tickTime at most. No job's looks take more than a tenth of a processor: lookTime a thread lies between them.
const (
	settleTime = 20 * time.Millisecond
	tickTime   = 140 * time.Millisecond
	restTime   = time.Second
	lookTime   = 500 * time.Microsecond
)

// Watch sees to it that News knows when a program of one job waits for the job's terminal, and when it does not any
// more. Its fields are set before Start and Kick; a PTY has one running Watch at a time.
type Watch struct {
	PTY *PTY

	// Tree lists the processes that belong to the job now.
	Tree func() []int

	// Quiet is the time of the newest output, the zero time before the first.
	Quiet func() time.Time

	// News is told at each change: who waits; or, where waiting is false, who waits for other things as well and takes
	// input, the zero Evidence for nobody. It is told again when the same program still waits after new output, which
	// may be a new prompt. The moment input is sent to one that waits, it is told that nobody does, in the sender's
	// goroutine; nothing that was seen before the end of that Send is told afterwards. Calls do not overlap. News must
	// not send, for the sender waits until it returns.
	News func(ev Evidence, waiting bool)

	once sync.Once
	kick chan struct{} // holds one: a second kick before the look adds nothing

	// Of its goroutine, and while it rests of the pulse.
	clocks clocks
	pace   time.Duration // from one asking of the clocks to the next
	rested time.Time     // since when it rests
	tries  int           // looks in a row that found things on their way
	free   time.Time     // the earliest time of the next look

	// Guarded by beats.mu.
	place int       // among those that rest
	due   time.Time // when to ask next

	// Guarded by PTY.mu.
	ev      Evidence
	waiting bool
	printed time.Time // Quiet at the time of the news
	typed   time.Time // when input was last sent
}

// Kick tells that the job has printed. It costs next to nothing and never blocks.
func (w *Watch) Kick() {
	select {
	case w.kicks() <- struct{}{}:
	default:
	}
}

func (w *Watch) kicks() chan struct{} {
	w.once.Do(func() { w.kick = make(chan struct{}, 1) })
	return w.kick
}

// Start begins to watch. The function it returns ends that, and returns when it has ended.
func (w *Watch) Start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // owned by the caller, who calls stop; ends then
		defer close(done)
		w.run(ctx)
	}()
	return func() { cancel(); <-done }
}

// run watches until ctx is done.
func (w *Watch) run(ctx context.Context) {
	w.PTY.watchedBy(w)
	defer w.PTY.watchedBy(nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for w.settle(ctx, timer) {
		w.look()
		w.rest(ctx, timer)
	}
}

// settle waits until neither output nor input has passed for settleTime. It returns false when ctx is done.
func (w *Watch) settle(ctx context.Context, timer *time.Timer) bool {
	limit := time.Now().Add(tickTime)
	for {
		select { // drained before the traffic is asked for: a kick that comes later tells of more
		case <-w.kicks():
		default:
		}
		due := w.lastTraffic().Add(settleTime)
		if due.After(limit) {
			due = limit
		}
		if due.Before(w.free) {
			due = w.free
		}
		d := time.Until(due)
		if d <= 0 {
			return ctx.Err() == nil
		}
		timer.Reset(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
}

// rest waits until there is a reason to look again or ctx is done.
func (w *Watch) rest(ctx context.Context, timer *time.Timer) {
	w.rested = time.Now()
	if w.tries > 0 { // what is on its way arrives, whether or not a thread runs for it
		timer.Reset(w.pace)
	} else {
		timer.Stop()
		beats.join(w)
		defer beats.leave(w)
	}
	select {
	case <-w.kicks():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// look takes a full look, tells what it came to, and sets the pace.
func (w *Watch) look() {
	marks := w.PTY.sends()
	printed := w.Quiet()
	ev, v := w.evidence()
	w.free = time.Now().Add(time.Duration(w.clocks.count) * lookTime)
	switch {
	case !w.tell(ev, v, marks, printed):
		w.pace = min(settleTime<<min(w.tries, 8), tickTime)
		w.tries++
		return
	case v == waits:
		w.pace = restTime
	default:
		w.pace = tickTime
	}
	w.tries = 0
}

// evidence reads the clocks before it looks, so that a thread that runs while it looks is seen to have moved at the
// next tick.
func (w *Watch) evidence() (Evidence, verdict) {
	w.clocks.moved()
	procs := w.Tree()
	for try := 1; w.clocks.follow(procs); try++ {
		if try == 3 { // it grows faster than it can be listed, so some of it may have no clock
			w.clocks.blind = true
			break
		}
		procs = w.Tree()
	}
	return w.PTY.lookOver(procs, w.Tree)
}

// tell passes on what a look came to, unless input has been sent since it began or nothing can be said yet: false then.
func (w *Watch) tell(ev Evidence, v verdict, marks uint64, printed time.Time) bool {
	w.PTY.mu.Lock()
	defer w.PTY.mu.Unlock()
	if v == passing || w.PTY.marks != marks || marks%2 == 1 {
		return false
	}
	waiting := v == waits
	if waiting == w.waiting && ev == w.ev && (!waiting || printed.Equal(w.printed)) {
		return true
	}
	w.ev, w.waiting, w.printed = ev, waiting, printed
	w.News(ev, waiting)
	return true
}

// answered takes back what was said, for input is being sent; it is called at the start and at the end of a Send, with
// PTY.mu held.
func (w *Watch) answered() {
	w.typed = time.Now()
	if w.waiting {
		w.ev, w.waiting = Evidence{}, false
		w.News(Evidence{}, false)
	}
	w.Kick()
}

// lastTraffic is the time of the newest output or input.
func (w *Watch) lastTraffic() time.Time {
	printed := w.Quiet()
	w.PTY.mu.Lock()
	defer w.PTY.mu.Unlock()
	if printed.After(w.typed) {
		return printed
	}
	return w.typed
}
