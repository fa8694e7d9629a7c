package pyrepl

import (
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/procfs"
	"asyncrepl/jobs"
)

// stop stops the job as its Port asks: it interrupts the code, and ends the worker if that does not
// help.
func (r *run) stop() {
	term, err := procfs.DispositionOf(r.w.Process().PID(), syscall.SIGTERM)
	r.handlesTerm = err == nil && (term.Caught || term.Ignored || term.Blocked)
	result := r.w.Process().Stop(process.Ladder{
		Over: r.over, Keep: true, Step: r.p.Stop().Step, Interrupt: r.interrupt, Requests: r.p,
	})
	r.rungs = result.Needed
	if slices.Contains(result.Needed, jobs.Kill) && !r.w.Ended() {
		close(r.unkilled)
	}
}

// interrupt asks the worker to raise KeyboardInterrupt in the job's code. A worker that has not
// begun with the job keeps the request until it does: the command was sent before.
func (r *run) interrupt() error {
	r.mu.Lock()
	r.signalled = true
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

// repeatInterrupt repeats the request, which counts once a job. The worker would notice a signal
// that came just before a blocking call only when the call returns; the next one ends the call.
//
// It interrupts children after the second repetition, or when the code has ended. Code that sees
// its child exit must have its KeyboardInterrupt by then, and Python can swallow the first one. It
// interrupts only the children in asked, which existed when the interrupt was asked for: code that
// has its KeyboardInterrupt can start others to clean up.
//
// The C library's system(3), or a SIGINT handler of the user's, can keep the interrupt from being
// raised. Until it is, each repetition interrupts the children that existed one pause ago: had they
// been started to clean up, the worker would have reported the interrupt by now.
func (r *run) repeatInterrupt(asked []procfs.Process) {
	timer := time.NewTimer(firstPause)
	defer timer.Stop()
	last, n := asked, 0
	for pause := firstPause; ; timer.Reset(pause) {
		select {
		case <-r.over:
			if n < 2 {
				interruptAll(asked)
			}
			return
		case <-timer.C:
		}
		if urg, err := procfs.DispositionOf(r.w.Process().PID(), syscall.SIGURG); err == nil && urg.Pending && !urg.Blocked {
			continue // the worker has not run since the last request: another one would be the same
		}
		r.w.Process().Signal(syscall.SIGURG) // an error: the worker has ended
		n++
		raised := r.wasRaised()
		if raised {
			last = asked
		}
		if n == 2 || n > 2 && !raised {
			interruptAll(last)
		}
		if !raised {
			last = r.w.Foreground()
		}
		pause = min(2*pause, lastPause)
	}
}

// setRaised notes that the interrupt was raised in the job's code.
func (r *run) setRaised() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raised = true
}

func (r *run) wasRaised() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.raised
}
