package pump

import (
	"os"

	"golang.org/x/sys/unix"
)

// Buffered returns the number of bytes that a pipe holds: FIONREAD of
// https://man7.org/linux/man-pages/man7/pipe.7.html.
func Buffered(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCINQ) }

// pipe makes half of the system calls of os.Pipe, which makes both ends non-blocking and polls
// them.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

// enlarge makes a pipe hold size bytes. If the user's pipes hold as much as they can, it stays as it
// is (https://man7.org/linux/man-pages/man7/pipe.7.html, pipe-user-pages-soft).
func enlarge(fd, size int) { unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size) }
