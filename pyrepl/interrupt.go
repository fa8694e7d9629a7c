package pyrepl

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/runner"
	"asyncrepl/jobs"
)

// A procKey tells a process from a later one of the same number.
type procKey struct {
	pid   int
	start uint64
}

func keys(ps []procfs.Process) map[procKey]bool {
	m := make(map[procKey]bool, len(ps))
	for _, p := range ps {
		m[procKey{p.PID, p.Start}] = true
	}
	return m
}

// startLadder runs the ladder once the job is to be stopped. The function it
// returns waits for its end and names the rungs that were needed; the run must
// be over by then.
func (r *run) startLadder(ctx context.Context) (wait func() []jobs.Rung) {
	var rungs []jobs.Rung
	done := make(chan struct{})
	go func() { // owned by exec, which calls wait; ends when the run is over, at the latest
		defer close(done)
		select {
		case <-ctx.Done():
			rungs = r.climb()
		case <-r.over:
		}
	}()
	return func() []jobs.Rung { <-done; return rungs }
}

// climb stops the job: first its code only, and its worker if that does not
// help.
func (r *run) climb() []jobs.Rung {
	st := r.p.Stop()
	result := r.w.handle.Stop(process.Ladder{
		Over: r.over, Keep: true, Step: st.Step, Interrupt: r.interrupt, Requests: r.p,
	})
	if slices.Contains(result.Needed, jobs.Kill) && !runner.Ended(r.w.handle) {
		close(r.stuck)
	}
	return result.Needed
}

// interrupt asks for a KeyboardInterrupt in the job's code. A worker that has not begun with the
// job drops the request; one of the next nudges finds it at work.
func (r *run) interrupt() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signal()
}

// noteRaised notes that the interrupt has been raised in the job's code.
func (r *run) noteRaised() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raised = true
}

// signal asks the worker for a KeyboardInterrupt, and interrupts what it may be
// waiting for. The caller holds mu.
func (r *run) signal() error {
	r.signalled = true
	err := r.w.handle.Signal(syscall.SIGURG)
	r.nudging.Go(r.nudge) // owned by exec, which waits for it; ends when the run is over
	return errors.Join(err, r.signalChildren())
}

// signalChildren sends SIGINT, by pid, to those processes of the terminal's
// foreground group that started after this job did: children of earlier jobs,
// and theirs, are not touched.
func (r *run) signalChildren() error {
	group, err := r.w.pty.Foreground()
	if err != nil {
		return err
	}
	earlier := make(map[int]bool)
	descendants, err := r.w.handle.Descendants()
	for _, p := range descendants { // parents come before their children
		switch {
		case r.earlier[procKey{p.PID, p.Start}] || earlier[p.Parent]:
			earlier[p.PID] = true
		case p.Group == group:
			p.Signal(syscall.SIGINT) // an error: it has ended
		}
	}
	return err
}

// Times between two nudges: at first it is likely that one helps.
const (
	firstNudge = time.Millisecond
	lastNudge  = 500 * time.Millisecond
)

// nudge repeats the request, which counts once a job: a signal that came just
// before a call that blocks would be seen only when the call returns, and the
// next one ends the call. Until the interrupt has been raised, children are
// interrupted again too: one that was about to be started when it came, and
// ignored it, is what the code waits for now.
func (r *run) nudge() {
	pause := firstNudge
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-r.over:
			return
		case <-timer.C:
			r.w.handle.Signal(syscall.SIGURG) // an error: it is over
			if !r.wasRaised() {
				r.signalChildren()
			}
			pause = min(2*pause, lastNudge)
			timer.Reset(pause)
		}
	}
}

func (r *run) wasRaised() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.raised
}
