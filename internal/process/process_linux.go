package process

import (
	"cmp"
	"errors"
	"math"
	"os"
	"os/signal"
	"syscall"

	"asyncrepl/internal/kernel/procfs"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes the kernel give us the orphans among our descendants
// (https://man7.org/linux/man-pages/man2/prctl.2.html, PR_SET_CHILD_SUBREAPER), and reports whether
// it does.
func becomeSubreaper() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// lingers reports whether a session can have members that are not among our descendants. Here it
// can't.
func lingers(int) bool { return false }

// ownChildren returns the pids of our children, zombies too.
func ownChildren() ([]int, error) { return procfs.Children(os.Getpid(), 0) }

// walk returns the roots that still exist and all their descendants, parents before their children.
// A root that could not be inspected counts as existing, and nothing is known of it but its
// identity. (The session is for systems on which orphans do not come to us.)
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

// childSignals returns a channel that receives a signal when a child has exited, and a function
// that ends that.
func childSignals() (dying <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1) // one is enough: a scan finds all
	signal.Notify(c, syscall.SIGCHLD)
	return c, func() { signal.Stop(c) }
}

// resetInheritance keeps our children from inheriting what we have inherited. It catches the
// signals that we were started to ignore, as a shell's background job ignores SIGINT: exec resets a
// signal that is caught to its default action, and leaves one that is ignored
// (https://man7.org/linux/man-pages/man7/signal.7.html). It marks the descriptors that were left
// open for us to be closed in children. Linux before 5.11 can't mark them so, and children inherit
// them (https://man7.org/linux/man-pages/man2/close_range.2.html).
func resetInheritance() {
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)

	caught := make(chan os.Signal, 1) // never read: catching is all
	ignored, _ := procfs.OwnIgnored()
	for _, sig := range ignored {
		signal.Notify(caught, sig)
	}
}
