package pyrepl

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// stop stops the job as its Port asks: it interrupts the code, and ends the worker if that does not
// help. A stop that spares the variables only interrupts, unless there were none before the job:
// then a hanging first job would block its session for the sake of nothing.
func (r *run) stop() {
	term, err := procfs.DispositionOf(r.w.Process().PID(), syscall.SIGTERM)
	r.handlesTerm = err == nil && (term.Caught || term.Ignored || term.Blocked)
	result := r.w.Process().Stop(process.Ladder{
		Over: r.over, Keep: true, Step: r.p.Stop().Step, Interrupt: r.interrupt, Requests: r.p,
		Hold: r.held,
	})
	r.rungs = result.Needed
	if slices.Contains(result.Needed, jobs.Kill) && !r.w.Ended() {
		close(r.unkilled)
	}
}

// held reports whether the job's stop goes no further than the interrupt.
func (r *run) held() bool {
	st := r.p.Stop()
	return st != nil && st.Spare && r.had > 0
}

// hold says why the interrupt has not ended the job yet.
func (r *run) hold() (h jobs.Hold, ok bool) {
	r.mu.Lock()
	due, raises, at, own, spot := r.repeated, r.raises, r.raisedAt, r.ownHandler, r.spot
	r.mu.Unlock()
	if !due || !r.held() {
		return jobs.Hold{}, false
	}
	h = jobs.Hold{Variables: r.had, Reached: raises > 0 || own}
	since := time.Since(at).Round(time.Second)
	switch {
	case raises == 1:
		h.Why = fmt.Sprintf("KeyboardInterrupt was raised %v ago, and the code continues", since)
	case raises > 1:
		h.Why = fmt.Sprintf("KeyboardInterrupt was raised %d times, last %v ago, and the code continues", raises, since)
	case own:
		h.Why = "the code handles SIGINT itself, and continues"
	default:
		h.Why = cmp.Or(r.looker.Waits(spot), "Python has not taken it yet")
	}
	return h, true
}

// interrupt asks the worker to raise KeyboardInterrupt in the job's code. A worker that has not
// begun with the job keeps the request until it does: the command was sent before.
func (r *run) interrupt() error {
	r.mu.Lock()
	r.signalled, r.raises = true, 0 // an earlier KeyboardInterrupt was not asked for
	r.reported = r.w.Raised()
	r.mu.Unlock()
	children := r.w.Foreground()
	err := r.w.Process().Signal(syscall.SIGURG)
	// A worker that is stopped can't answer, and would be terminated with its variables.
	r.w.Process().Signal(syscall.SIGCONT)
	r.stopping.Go(func() { r.repeatInterrupt(children) }) // owned by exec, which waits for it; ends when the run is over
	return err
}

// interruptAll sends SIGINT to each process, and continues it: a stopped one would not act on it.
func interruptAll(ps []procfs.Process) {
	for _, p := range ps {
		p.Signal(syscall.SIGINT) // an error: it has ended
		p.Signal(syscall.SIGCONT)
	}
}

// The pauses between two interrupts. The first few are short, because one is likely to help.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// repeatInterrupt repeats the request, which counts once a job. Python runs the handler of a signal
// that comes just before a blocking call only when the call returns
// (https://docs.python.org/3/library/signal.html); the next signal ends the call.
//
// It interrupts children after the second repetition, or when the code has ended. Code that sees
// its child exit must have its KeyboardInterrupt by then, and Python can swallow the first one. It
// interrupts only the children in asked, which existed when the interrupt was asked for: code that
// has its KeyboardInterrupt can start others to clean up.
//
// The C library's system ignores SIGINT until its command has ended
// (https://man7.org/linux/man-pages/man3/system.3.html), and so keeps the interrupt from the code.
// Until the worker has reported that the code has it, each repetition interrupts the children that
// existed one pause ago: had they been started to clean up, the report would have come by now.
//
// If the client asks again after code has caught its interrupt, it gets another one, and so do the
// children that exist then. That one is a SIGINT: the worker counts the other signal once.
//
// polars handles SIGINT itself while a query runs, and ends the query with a KeyboardInterrupt
// (https://github.com/pola-rs/polars/blob/main/crates/polars-error/src/signals.rs). Python's handlers
// would only run after the query. A SIGINT shortly before the query is lost, so that is repeated, too.
func (r *run) repeatInterrupt(asked []procfs.Process) {
	timer := time.NewTimer(firstPause)
	defer timer.Stop()
	last, n, again := asked, 0, 0
	for pause := firstPause; ; timer.Reset(pause) {
		_, changed := r.p.Wanted()
		if st := r.p.Stop(); st.Again() > again {
			again = st.Again()
			if r.hasReached() {
				asked = r.w.Foreground()
				last, n, pause = asked, 0, firstPause
				r.expectAnother()
				r.w.Process().Signal(syscall.SIGINT)
			}
		}
		select {
		case <-r.over:
			if n < 2 {
				interruptAll(asked)
			}
			return
		case <-changed:
			continue
		case <-timer.C:
		}
		if urg, err := procfs.DispositionOf(r.w.Process().PID(), syscall.SIGURG); err == nil && urg.Pending && !urg.Blocked {
			continue // the worker has not run since the last request: another one would be the same
		}
		r.w.Process().Signal(syscall.SIGURG) // an error: the worker has ended
		if n++; n == 2 {
			r.setSpot(r.looker.Place()) // Python code would have it by now
		}
		// On a busy machine the report can have come and not be read or handled yet.
		reached := r.w.EventsPending() || r.isReported()
		if reached {
			last = asked
		}
		if n == 2 || n > 2 && !reached {
			interruptAll(last)
		}
		if !reached {
			last = r.w.Foreground()
		}
		if n > 2 && !reached && r.looker.In("polars") {
			r.interruptLibrary()
		}
		pause = min(2*pause, lastPause)
	}
}

// interruptLibrary sends a SIGINT for the handler of a library in C code, unless user code has taken
// the handler away: then the signal would end its Python.
func (r *run) interruptLibrary() {
	p := r.w.Process()
	if d, err := procfs.DispositionOf(p.PID(), syscall.SIGINT); err == nil && d.Caught {
		p.Signal(syscall.SIGINT) // an error: it has ended
	}
}

// setRaised notes that the interrupt was raised in the job's code, or that the code's own handler
// took it.
func (r *run) setRaised(ev worker.RaisedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reached = true; ev.Handler {
		r.ownHandler = true
		return
	}
	r.raisedAt = time.Now()
	r.raises++
}

func (r *run) hasReached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached
}

// isReported reports whether the worker has reported that the code has the interrupt, although the
// report may not be handled yet.
func (r *run) isReported() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached || r.w.Raised() > r.reported
}

// expectAnother prepares for another interrupt. The worker does not report interrupts that the
// code's own handler takes.
func (r *run) expectAnother() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached, r.reported = r.ownHandler, r.w.Raised()
}

// setSpot notes where the code was shortly after it was interrupted; 0: unknown.
func (r *run) setSpot(spot uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeated, r.spot = true, spot
}
