//go:build unix

package tty

import (
	"context"
	"sync"
	"time"
)

// The schedule. A look comes when the terminal has been quiet for settleTime; after it the clocks of the job's threads
// are asked every tickTime, and a look follows only where one has moved. A job that is known to wait is asked every
// restTime: what ends its wait is nearly always input or output, and these are told. Flowing output puts a look off by
// tickTime at most. No job's looks take more than a tenth of a processor: lookTime a thread lies between them.
const (
	settleTime = 20 * time.Millisecond
	tickTime   = 120 * time.Millisecond
	restTime   = time.Second
	lookTime   = 500 * time.Microsecond
)

// epoch is where the ticks of all watches are counted from, so that they fall together: 500 idle jobs wake the process
// eight times a second and not four thousand times.
var epoch = time.Now()

// Watch sees to it that News knows when a program of one job waits for the job's terminal, and when it does not any
// more. Its fields are set before Run and Kick; a PTY has one running Watch at a time.
type Watch struct {
	PTY *PTY

	// Tree lists the processes that belong to the job now.
	Tree func() []int

	// Quiet is the time of the newest output, the zero time before the first.
	Quiet func() time.Time

	// News is told at each change, and again when the same program still waits after new output, which may be a new
	// prompt. The moment input is sent, it is told that nobody waits, in the sender's goroutine; nothing that was seen
	// before the end of that Send is told afterwards. Calls do not overlap. News must not send, for the sender waits
	// until it returns.
	News func(ev Evidence, waiting bool)

	once sync.Once
	kick chan struct{} // holds one: a second kick before the look adds nothing

	clocks clocks // of Run's goroutine
	tries  int    // looks in a row that found things on their way
	free   time.Time

	// Guarded by PTY.mu.
	ev      Evidence
	waiting bool
	printed time.Time // Quiet at the time of the news
	typed   time.Time // when input was last sent
}

// Kick tells Run that the job has printed. It costs next to nothing and never blocks.
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

// Run watches until ctx is done.
func (w *Watch) Run(ctx context.Context) {
	w.PTY.onSend(w.answered)
	defer w.PTY.onSend(nil)
	defer w.clocks.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for w.settle(ctx, timer) {
		if next := w.look(); !w.rest(ctx, timer, next) {
			return
		}
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

// rest waits until there is a reason to look again, and asks the clocks for one each time next is over. It returns
// false when ctx is done.
func (w *Watch) rest(ctx context.Context, timer *time.Timer, next time.Duration) bool {
	blind := time.Now().Add(restTime)
	for {
		timer.Reset(next - time.Since(epoch)%next)
		select {
		case <-w.kicks():
			return true
		case now := <-timer.C:
			if w.tries > 0 || w.clocks.moved() || w.clocks.blind && !now.Before(blind) {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// look takes a full look, tells what it came to, and returns the time to the next tick.
func (w *Watch) look() time.Duration {
	marks := w.PTY.sends()
	printed := w.Quiet()
	ev, v := w.evidence()
	w.free = time.Now().Add(time.Duration(w.clocks.count) * lookTime)
	if w.tell(ev, v, marks, printed) {
		w.tries = 0
	} else {
		w.tries++
		return min(settleTime<<min(w.tries-1, 8), tickTime)
	}
	if v == waits {
		return restTime
	}
	return tickTime
}

// evidence reads the clocks before it looks, so that a thread that runs while it looks is seen to have moved at the
// next tick.
func (w *Watch) evidence() (Evidence, verdict) {
	w.clocks.moved()
	procs := w.Tree()
	for range 3 { // a job that grows faster than that is seen to move at the next tick
		if !w.clocks.follow(procs) {
			break
		}
		procs = w.Tree()
	}
	return w.PTY.look(procs)
}

// tell passes on what a look came to, unless input has been sent since it began or nothing can be said yet: false then.
func (w *Watch) tell(ev Evidence, v verdict, marks uint64, printed time.Time) bool {
	w.PTY.mu.Lock()
	defer w.PTY.mu.Unlock()
	if v == passing || w.PTY.marks != marks || marks%2 == 1 {
		return false
	}
	waiting := v == waits
	if waiting == w.waiting && (!waiting || ev == w.ev && printed.Equal(w.printed)) {
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
	w.PTY.mu.Lock()
	defer w.PTY.mu.Unlock()
	if q := w.Quiet(); q.After(w.typed) {
		return q
	}
	return w.typed
}
