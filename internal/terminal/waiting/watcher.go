//go:build unix

package waiting

import (
	"context"
	"sync"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/threads"
)

// The schedule. The watcher scans when the terminal has been quiet for settleTime. After that it
// reads the clocks of the job's processes every tickTime, and scans again if one of them has moved.
// The clocks of a job that is known to wait are read every restTime: output or input nearly always
// ends its wait, and the watcher is notified of both. Continuous output delays a scan by at most
// tickTime. The scans of a job take at most a tenth of a processor: for each thread they leave
// scanTime between them.
const (
	settleTime = 20 * time.Millisecond
	tickTime   = 140 * time.Millisecond
	restTime   = time.Second
	scanTime   = 500 * time.Microsecond
)

// Watcher reports to OnChange when a program of one job begins to wait for input, and when none
// waits any more. Set its fields before Start and Kick. A Source has one running Watcher at a time.
type Watcher struct {
	Source Source

	// Tree lists the processes that belong to the job now. After an error, processes can be
	// missing.
	Tree func() ([]int, error)

	// LastOutput returns the time of the newest output, the zero time before the first.
	LastOutput func() time.Time

	// OnChange is called at each change. If waiting is true, ev says which program waits. If it is
	// false, ev says which program takes input and waits for other things as well, or which was
	// stopped, and the zero Evidence means none. It is called again when the same program still
	// waits after new output, which may be a new prompt. When input is sent to a program that waits
	// or takes input, it is called at once, with the zero Evidence and in the sender's goroutine;
	// nothing that was seen before the end of that Send is reported afterwards. Calls do not
	// overlap. OnChange must not send, because the sender waits until it returns.
	OnChange func(ev Evidence, waiting bool)

	once sync.Once
	kick chan struct{} // holds one: a second kick before the scan adds nothing

	// Used by the watcher's goroutine, and while it sleeps by the poller.
	clocks procfs.Clocks
	past   history
	beyond outside
	reader readerClock
	epoch  uint64        // the sendEpoch at which past begins
	pace   time.Duration // the time between two readings of the clocks
	slept  time.Time     // the start of the last sleep
	tries  int           // scans in a row that were uncertain
	rested time.Time     // the earliest time of the next scan

	// Guarded by watchers.mu.
	place int       // its index in watchers.sleeping, or awake
	due   time.Time // the next reading of the clocks

	// Guarded by mu, which also orders the calls of OnChange.
	mu        sync.Mutex
	sendEpoch uint64 // one more at each start and end of a Send
	ev        Evidence
	waiting   bool
	unsure    bool      // input was sent, and no scan has had a result since
	printed   time.Time // LastOutput at the last report
	typed     time.Time // the last start or end of a Send
}

// Kick notifies the watcher that the job has printed. It costs next to nothing and never blocks.
func (w *Watcher) Kick() {
	select {
	case w.kicks() <- struct{}{}:
	default:
	}
}

func (w *Watcher) kicks() chan struct{} {
	w.once.Do(func() { w.kick = make(chan struct{}, 1) })
	return w.kick
}

// Start begins to watch. A timer starts the watcher's goroutine after settleTime, before which nothing
// is scanned, so a job that ends at once starts none. The function it returns, which is called once,
// stops that, and returns when it has stopped.
func (w *Watcher) Start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w.Source.OnSend(w.inputSent)
	done := make(chan struct{})
	first := time.AfterFunc(settleTime, func() { // owned by the caller, which calls stop; ends then
		defer close(done)
		w.run(ctx)
	})
	return func() {
		cancel()
		if !first.Stop() {
			<-done
		}
		w.Source.OnSend(nil)
	}
}

// run watches until ctx is done.
func (w *Watcher) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for w.settle(ctx, timer) {
		w.scan()
		w.sleep(ctx, timer)
	}
}

// settle waits until there has been neither output nor input for settleTime. It returns false when
// ctx is done.
func (w *Watcher) settle(ctx context.Context, timer *time.Timer) bool {
	limit := time.Now().Add(tickTime)
	for {
		select { // drained before the traffic is read: a kick that comes later announces more
		case <-w.kicks():
		default:
		}
		due := w.lastTraffic().Add(settleTime)
		if due.After(limit) {
			due = limit
		}
		if due.Before(w.rested) {
			due = w.rested
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

// sleep waits until there is a reason to scan again or ctx is done.
func (w *Watcher) sleep(ctx context.Context, timer *time.Timer) {
	w.slept = time.Now()
	if due := w.past.due; w.tries > 0 || !due.IsZero() { // bytes in transit arrive without a thread running
		pace := w.pace
		if left := due.Sub(w.slept); left > 0 {
			pace = min(pace, left)
		}
		timer.Reset(pace)
	} else {
		timer.Stop()
		watchers.join(w)
		defer watchers.leave(w)
	}
	select {
	case <-w.kicks():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// scan scans the job once, reports the result, and sets the pace. It reads the clocks first, so
// that a thread that runs during the scan is seen to have moved at the next tick.
func (w *Watcher) scan() {
	epoch, sending := w.sends()
	printed := w.LastOutput()
	w.clocks.Moved()
	ran := w.reader.ran() // read between printed and the scan
	ev, v := w.evidence()
	if epoch != w.epoch {
		w.past, w.epoch = w.past.answered(), epoch
	}
	f := facts{printed: printed, used: w.clocks.Used(), all: w.clocks.Complete(), ran: ran}
	if v.alone() {
		w.reader.follow(ev)
		f.others = w.reader.others()
	}
	if v == looping {
		f.printed = w.LastOutput() // the scan has seen the loop since it printed that
	}
	f.typed, f.now = w.lastInput(), time.Now() // last: input that the scan saw came before
	ev, v = w.past.judge(ev, v, f)
	if w.past.due.IsZero() {
		w.past.due = w.beyond.pending()
	}
	w.rested = time.Now().Add(time.Duration(w.clocks.Threads()) * scanTime)
	switch {
	case sending || !w.report(ev, v, epoch, printed):
		w.pace = min(settleTime<<min(w.tries/4, 8), tickTime) // most moments pass soon
		w.tries++
		return
	case v == waits:
		w.pace = restTime
	default:
		w.pace = tickTime
	}
	w.tries = 0
}

// evidence scans the job's processes. It is certain of nothing if it could not list them.
func (w *Watcher) evidence() (Evidence, verdict) {
	ev, v, p := w.scanTree()
	if v == busy && w.beyond.search(p, w.lastTraffic) {
		ev, v, _ = w.scanTree()
	}
	return ev, v
}

// scanTree scans the job's processes, and those outside it that have its terminal open.
func (w *Watcher) scanTree() (Evidence, verdict, *probe) {
	pids, err := w.clocks.Follow(w.tree)
	if threads.UnlessHidden(err) != nil {
		return Evidence{}, uncertain, nil
	}
	p := newProbe(w.Source, pids)
	p.outside = w.beyond.pids()
	ev, v := scanTree(p, w.tree)
	return ev, v, p
}

// tree lists the processes of scanTree.
func (w *Watcher) tree() ([]int, error) {
	pids, err := w.Tree()
	return append(pids, w.beyond.pids()...), err
}

// sends returns the epoch of the Sends so far, and whether one is in progress. It reads them in
// this order, so that a Send that begins in between changes the epoch.
func (w *Watcher) sends() (epoch uint64, sending bool) {
	w.mu.Lock()
	epoch = w.sendEpoch
	w.mu.Unlock()
	return epoch, w.Source.Sending()
}

// report passes the result of a scan to OnChange. It returns false, and lets the last report stand,
// if the result is uncertain or a Send has begun or ended since epoch.
func (w *Watcher) report(ev Evidence, v verdict, epoch uint64, printed time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v == uncertain || w.sendEpoch != epoch {
		return false
	}
	w.unsure = false
	waiting := v == waits
	if waiting == w.waiting && ev == w.ev && (!waiting || printed.Equal(w.printed)) {
		return true
	}
	w.ev, w.waiting, w.printed = ev, waiting, printed
	w.OnChange(ev, waiting)
	return true
}

// inputSent retracts the last report, because input is being sent. It is called at the start and at
// the end of a Send.
func (w *Watcher) inputSent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendEpoch++
	w.unsure = true
	w.typed = time.Now()
	if w.waiting || w.ev.Reads() {
		w.ev, w.waiting = Evidence{}, false
		w.OnChange(Evidence{}, false)
	}
	w.Kick()
}

// Unsure reports whether input was sent, and no scan has had a result since. That no program is
// reported to wait is not evidence then.
func (w *Watcher) Unsure() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsure
}

// lastTraffic returns the time of the newest output or input.
func (w *Watcher) lastTraffic() time.Time {
	printed, typed := w.LastOutput(), w.lastInput()
	if printed.After(typed) {
		return printed
	}
	return typed
}

// lastInput returns the time when input was last sent.
func (w *Watcher) lastInput() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.typed
}
