package shell

import (
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/runner"
)

// The times of an interrupt. It is repeated after growing pauses, as long as a repetition is likely
// to help.
const (
	stableLimit = 50 * time.Millisecond
	stableTime  = 2 * time.Millisecond   // a tree without a change for this time is stable
	stablePause = 200 * time.Microsecond // the least time between two scans
	firstPause  = 5 * time.Millisecond
	lastPause   = 10 * time.Millisecond
	resendTime  = 600 * time.Millisecond
)

// interrupt interrupts the foreground as ^C does, and repeats that as a person would press ^C
// again, because one interrupt can have no effect:
//   - A shell that is interrupted while it waits for a child continues if the child exits normally
//     (https://www.cons.org/cracauer/sigint.html).
//   - A shell that is about to wait for a child waits all the same.
//   - A child that the shell has forked, and that has not executed its program yet, drops it.
//
// bash 5.2 has a race: an interrupt that arrives before bash has saved the previous action makes it
// raise the interrupt again for ever. Such a shell is terminated.
//
// Many programs take a second interrupt as a request to drop everything. So it is repeated only to
// processes that the kernel shows to handle no interrupt: one that was there before the first
// interrupt, has executed another program since and leaves SIGINT at its default; and the shell
// itself, if it was seen just before the first interrupt to have set no trap.
func (r *run) interrupt() error {
	noTrap := r.waitStable()
	before, _ := r.handle.Tree() // an error: fewer are interrupted again
	err := r.handle.Interrupt()
	_, raised := r.port.Wanted()
	timer := time.NewTimer(firstPause)
	defer timer.Stop()
	for pause, left := firstPause, resendTime; left > 0; left -= pause {
		select {
		case <-r.handle.Done():
			return err
		case <-raised:
			return err
		case <-timer.C:
		}
		r.resendInterrupt(before, noTrap)
		pause = min(2*pause, lastPause)
		timer.Reset(pause)
	}
	return err
}

// waitStable waits until the processes of the tree have started nothing and executed nothing for
// stableTime, because a signal can miss what they are about to do. It reports whether the shell was
// seen to leave SIGINT at its default: then the command has set no trap. (While it waits for a
// child, a shell always catches SIGINT.)
func (r *run) waitStable() (noTrap bool) {
	var last []procfs.Process
	begin := time.Now()
	changed := begin
	for now := begin; now.Sub(changed) < stableTime && now.Sub(begin) < stableLimit; now = time.Now() {
		leader, err := procfs.Inspect(r.handle.PID())
		if err != nil || runner.Ended(r.handle) {
			return false
		}
		noTrap = (noTrap || defaultSIGINT(leader.Process)) && r.isShell(leader.Process)
		below, _ := r.handle.Descendants() // an error: the next scan may see more
		tree := append([]procfs.Process{leader.Process}, below...)
		if slices.ContainsFunc(tree, running) || !slices.Equal(tree, last) {
			last, changed = tree, time.Now()
		}
		time.Sleep(stablePause)
	}
	return noTrap
}

// defaultSIGINT reports whether p is known to neither catch nor ignore SIGINT.
func defaultSIGINT(p procfs.Process) bool {
	d, err := p.Disposition(syscall.SIGINT)
	return err == nil && !d.Caught && !d.Ignored
}

// running reports whether p is running: it does not sleep, is not stopped, and has not ended.
func running(p procfs.Process) bool {
	s, err := procfs.Inspect(p.PID)
	return err == nil && s.State == 'R'
}

// resendInterrupt interrupts again the processes on which the first interrupt had no effect. before
// is the tree as it was then.
func (r *run) resendInterrupt(before []procfs.Process, noTrap bool) {
	group := r.foreground()
	tree, _ := r.handle.Tree() // an error: the next scan may see more
	for _, p := range tree {
		i := slices.IndexFunc(before, func(b procfs.Process) bool { return b.PID == p.PID && b.Start == p.Start })
		if i < 0 || p.Group != group || before[i].Group != group {
			continue
		}
		d, err := p.Disposition(syscall.SIGINT)
		executed := before[i].Program != p.Program && err == nil && d == procfs.Disposition{}
		if executed || p.PID == r.handle.PID() && noTrap && r.isShell(p) {
			p.Signal(syscall.SIGINT) // an error: it has ended
		}
	}
}

// isShell reports whether p, the leader, still runs the shell as which it was started.
func (r *run) isShell(p procfs.Process) bool {
	return r.shell != "" && p.Program == filepath.Base(r.shell)
}
