package shell

import (
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/procfs"
)

// The times of an interrupt. It is repeated at growing pauses, for as long as
// it is likely that one more helps.
const (
	poiseTime  = 50 * time.Millisecond
	poiseLooks = 10                   // at the shell for each at the tree
	restTime   = 2 * time.Millisecond // without a change
	firstNudge = 5 * time.Millisecond
	lastNudge  = 10 * time.Millisecond
	nudgeTime  = 600 * time.Millisecond
)

// interrupt interrupts the foreground as ^C does. A shell that is interrupted
// while a child of its ends otherwise goes on, one that is about to wait waits
// all the same, and a child that it has forked and that is not yet the program
// it will be loses the signal; a person would press ^C again. So do we, but only
// where the kernel shows that nobody handles the interrupt, for to many programs
// a second one means to drop everything: to a process that was there before the
// interrupt, has become another program since and leaves SIGINT at its default;
// and to the shell itself if it was seen just before to have set no trap.
func (r *run) interrupt() error {
	plain := r.poise()
	before, _ := r.handle.Tree() // an error: fewer are interrupted again
	err := r.handle.Interrupt()
	_, raised := r.port.Stop()
	timer := time.NewTimer(firstNudge)
	defer timer.Stop()
	for pause, left := firstNudge, nudgeTime; left > 0; left -= pause {
		select {
		case <-r.handle.Done():
			return err
		case <-raised:
			return err
		case <-timer.C:
		}
		r.nudge(before, plain)
		pause = min(2*pause, lastNudge)
		timer.Reset(pause)
	}
	return err
}

// poise waits until the foreground rests: what it is about to do, a signal may
// miss. It reports whether the shell was seen to do nothing of its own about
// SIGINT: then no trap of the command's waits for it. (While it waits for a
// child, it always catches SIGINT.)
func (r *run) poise() (plain bool) {
	var last []procfs.Process
	begin := time.Now()
	for since := begin; time.Since(begin) < poiseTime; {
		tree, err := r.handle.Tree()
		if err != nil || len(tree) == 0 || tree[0].PID != r.handle.PID() {
			return false
		}
		for range poiseLooks {
			d, err := tree[0].Disposition(syscall.SIGINT)
			plain = plain || err == nil && !d.Caught && !d.Ignored
		}
		plain = plain && r.isShell(tree[0])
		if slices.ContainsFunc(tree, runs) || !slices.Equal(tree, last) {
			last, since = tree, time.Now()
		}
		if time.Since(since) >= restTime {
			break
		}
	}
	return plain
}

// runs reports whether p is running: it neither waits for something, nor is
// stopped, nor has ended.
func runs(p procfs.Process) bool {
	s, err := procfs.Inspect(p.PID)
	return err == nil && s.State == 'R'
}

// nudge interrupts again those that the interrupt has passed by.
func (r *run) nudge(before []procfs.Process, plain bool) {
	group := r.handle.PID()
	if r.pty != nil {
		if fg, err := r.pty.Foreground(); err == nil && fg > 0 {
			group = fg
		}
	}
	tree, _ := r.handle.Tree() // an error: the next time there may be more
	for _, p := range tree {
		d, err := p.Disposition(syscall.SIGINT)
		i := slices.IndexFunc(before, func(b procfs.Process) bool { return b.PID == p.PID && b.Start == p.Start })
		switch {
		case i < 0 || p.Group != group || before[i].Group != group:
		case p.PID == r.handle.PID() && plain && r.isShell(p),
			before[i].Program != p.Program && err == nil && d == procfs.Disposition{}:
			p.Signal(syscall.SIGINT) // an error: it is over
		}
	}
}

// isShell reports whether p, the leader, is still the shell that it was started
// as.
func (r *run) isShell(p procfs.Process) bool {
	return r.shell != "" && p.Program == filepath.Base(r.shell)
}
