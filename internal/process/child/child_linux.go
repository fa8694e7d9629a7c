package child

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// withPidfd makes a start store a pidfd of the new process in fd. It stays -1 if the kernel has
// none.
func withPidfd(attr *syscall.SysProcAttr, fd *int) { attr.PidFD = fd }

// startDefault starts a process with no signal blocked, even if this program was started with some.
// (For ignored signals, see resetInheritance in package process.)
func startDefault(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var none, before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, &before); err == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	}
	return os.StartProcess(path, argv, attr)
}

// A waiter waits for the end of one process without reaping it.
// pidfd_open needs Linux 5.3 (https://man7.org/linux/man-pages/man2/pidfd_open.2.html).
type waiter struct{ pidfd *os.File } // nil: the kernel has none

func newWaiter(pidfd int) waiter {
	if pidfd < 0 {
		return waiter{}
	}
	// The poller takes no descriptor in blocking mode.
	if err := unix.SetNonblock(pidfd, true); err != nil {
		unix.Close(pidfd)
		return waiter{}
	}
	return waiter{os.NewFile(uintptr(pidfd), "pidfd")}
}

// findWaiter returns a waiter for a process that exists.
func findWaiter(pid int) waiter {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // an old kernel, or no descriptor is left: a thread waits
		return waiter{}
	}
	return newWaiter(pidfd)
}

// AwaitExit waits for the end of a process that need not be a child of this one. It returns at once if the
// process is gone, or if the kernel has no pidfd.
func AwaitExit(pid int) { findWaiter(pid).wait(pid) }

// wait parks in the poller, or blocks a thread if there is no pidfd.
func (w waiter) wait(pid int) {
	if w.pidfd != nil {
		defer w.pidfd.Close()
		if conn, err := w.pidfd.SyscallConn(); err == nil && conn.Read(readable) == nil {
			return
		}
	}
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// close releases a waiter whose wait is never called.
func (w waiter) close() {
	if w.pidfd != nil {
		w.pidfd.Close()
	}
}

func readable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}
