package pyrepl

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/runner"
	"asyncrepl/jobs"
)

// A processKey identifies a process: it differs from that of a later process with the same pid.
type processKey struct {
	pid   int
	start uint64
}

func keyOf(p procfs.Process) processKey { return processKey{p.PID, p.Start} }

// stop stops the job as its Port asks: it interrupts the code, and ends the worker if that does not
// help.
func (r *run) stop() {
	result := r.w.handle.Stop(process.Ladder{
		Over: r.over, Keep: true, Step: r.p.Stop().Step, Interrupt: r.interrupt, Requests: r.p,
	})
	r.rungs = result.Needed
	if slices.Contains(result.Needed, jobs.Kill) && !runner.Ended(r.w.handle) {
		close(r.unkilled)
	}
}

// interrupt asks the worker to raise KeyboardInterrupt in the job's code, and interrupts the
// processes that the code can be waiting for. A worker that has not begun with the job keeps the
// request until it does: the command was sent before.
func (r *run) interrupt() error {
	r.mu.Lock()
	r.signalled = true
	r.mu.Unlock()
	err := r.w.handle.Signal(syscall.SIGURG)
	r.stopping.Go(r.resendInterrupt) // owned by exec, which waits for it; ends when the run is over
	return errors.Join(err, r.interruptChildren())
}

// interruptChildren sends SIGINT to each process of the terminal's foreground group that was
// started after this job began. It spares children of earlier jobs, and theirs.
func (r *run) interruptChildren() error {
	group, err := r.w.pty.Foreground()
	if err != nil {
		return err
	}
	earlier := make(map[int]bool)
	descendants, err := r.w.handle.Descendants()
	for _, p := range descendants { // parents come before their children
		switch {
		case r.earlier[keyOf(p)] || earlier[p.Parent]:
			earlier[p.PID] = true
		case p.Group == group:
			p.Signal(syscall.SIGINT) // an error: it has ended
		}
	}
	return err
}

// The pauses between two interrupts. The first few are short, because one is likely to help.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// resendInterrupt repeats the request, which counts once a job. The worker would notice a signal
// that came just before a blocking call only when the call returns; the next one ends the call.
// Until the interrupt has been raised, children are interrupted again too: a child that was being
// started when the first one came has ignored it, and the code waits for that child now.
func (r *run) resendInterrupt() {
	pause := firstPause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-r.over:
			return
		case <-timer.C:
			r.w.handle.Signal(syscall.SIGURG) // an error: the worker has ended
			if !r.wasRaised() {
				r.interruptChildren()
			}
			pause = min(2*pause, lastPause)
			timer.Reset(pause)
		}
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
