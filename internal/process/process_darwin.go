package process

import (
	"errors"
	"os"
	"syscall"

	"asyncrepl/internal/procfs"

	"golang.org/x/sys/unix"
)

// Orphans do not come to us on this system, and a process shows neither its environment nor its
// files: a tree is what descends from its leader and what is in the leader's session.

func becomeSubreaper() bool { return false }

// lingers reports whether something is left of a session whose leader has ended.
func lingers(session int) bool {
	es, err := walk(session, nil)
	return len(es) > 0 || err != nil
}

func ownChildren() ([]int, error) { return nil, nil }

// walk returns those of roots that are there still, all their descendants, and what is in the
// session.
func walk(session int, roots []procfs.Process) (es []procfs.Stat, err error) {
	in := make(map[int]bool)
	start := make(map[int]uint64)
	for _, r := range roots {
		start[r.PID] = r.Start
	}
	all, err := procfs.All()
	for grown := true; grown; {
		grown = false
		for _, e := range all {
			t, root := start[e.PID]
			if !in[e.PID] && (root && t == e.Start || in[e.Parent] || session > 1 && e.Session == session) {
				in[e.PID], grown = true, true
				es = append(es, e)
			}
		}
	}
	return es, err
}

func childSignals() (<-chan os.Signal, func()) { return nil, func() {} }

func resetInheritance() {}

func withPidfd(*syscall.SysProcAttr, *int) {}

func startDefault(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}

// A waiter waits for the end of one process without reaping it.
type waiter struct{}

func newWaiter(int) waiter { return waiter{} }

// wait blocks a thread until the process has ended. If kqueue fails, the process is a zombie
// already.
func (waiter) wait(pid int) {
	kq, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(kq)
	ends := []unix.Kevent_t{{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}}
	for {
		if _, err := unix.Kevent(kq, ends, make([]unix.Kevent_t, 1), nil); err != unix.EINTR {
			return
		}
	}
}

func (waiter) close() {}

// oomKills is not counted on this system.
func oomKills() (uint64, error) { return 0, errors.ErrUnsupported }
