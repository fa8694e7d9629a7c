package child

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func withPidfd(*syscall.SysProcAttr, *int) {}

func startDefault(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}

// A waiter waits for the end of one process without reaping it.
type waiter struct{}

func newWaiter(int) waiter { return waiter{} }

func findWaiter(int) waiter { return waiter{} }

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
