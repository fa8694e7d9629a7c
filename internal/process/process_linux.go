package process

import (
	"cmp"
	"errors"
	"math"
	"os"
	"os/signal"
	"syscall"

	"asyncrepl/internal/procfs"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes the kernel give us the orphans among our descendants, and reports whether
// it does.
func becomeSubreaper() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// lingers reports whether something may be left of a session that is not among our descendants.
// That can't be here.
func lingers(int) bool { return false }

// ownChildren returns the pids of our children, zombies too.
func ownChildren() ([]int, error) { return procfs.Children(os.Getpid(), 0) }

// walk returns those of roots that are there still and all their descendants, parents before their
// children. A root that could not be inspected is there, with nothing known but its identity. (The
// session shows more only on systems where orphans do not come to us.)
func walk(_ int, roots []procfs.Process) (es []procfs.Stat, err error) {
	for _, p := range roots {
		switch e, inspectErr := procfs.Inspect(p.PID); {
		case inspectErr == nil && e.Start == p.Start:
			es = append(es, e)
		case inspectErr != nil && !errors.Is(inspectErr, procfs.ErrGone):
			es, err = append(es, procfs.Stat{Process: p}), cmp.Or(err, inspectErr)
		}
	}
	for i := 0; i < len(es); i++ {
		pids, listErr := procfs.Children(es[i].PID, es[i].Threads)
		if !errors.Is(listErr, procfs.ErrGone) {
			err = cmp.Or(err, listErr)
		}
		for _, pid := range pids {
			switch e, inspectErr := procfs.Inspect(pid); {
			case inspectErr == nil && e.Parent == es[i].PID:
				es = append(es, e)
			case inspectErr != nil && !errors.Is(inspectErr, procfs.ErrGone):
				err = cmp.Or(err, inspectErr)
			}
		}
	}
	return es, err
}

// childSignals returns a channel that receives when a child has died, and a function that stops
// that.
func childSignals() (dying <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1) // one is enough: a scan finds all
	signal.Notify(c, syscall.SIGCHLD)
	return c, func() { signal.Stop(c) }
}

// resetInheritance keeps our children from inheriting what we have inherited. Signals that we were
// started to ignore, as a shell's background job ignores SIGINT, are caught: a child starts with
// the default for what its parent catches. Descriptors that were left open for us are closed in
// children.
func resetInheritance() {
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 they are inherited

	caught := make(chan os.Signal, 1) // never read: catching is all
	signals, _ := procfs.SignalsOf(os.Getpid())
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if signals.Ignored.Has(sig) {
			signal.Notify(caught, sig)
		}
	}
}
