package tty

import (
	"os"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// InTransit reports whether a program has not read all its input or the server not all output, an
// end of file included. It reports true if the terminal can't be asked.
func (p *PTY) InTransit() bool { return readable(p.slave) || readable(p.master) }

// readable reports whether a read of a terminal's end would find something. poll sees more than
// FIONREAD: it first fetches the bytes that are still on their way from the other end, and it
// counts an end of file.
func readable(f *os.File) bool {
	found := true // the result if the terminal can't be asked
	_ = descriptor.Use(f, func(fd int) error {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, 0)
		found = n != 0 || err != nil
		return nil
	})
	return found
}

// unread returns how many bytes of input no program has read.
func (p *PTY) unread() (n int, err error) {
	readable(p.slave) // fetches what is on its way
	err = descriptor.Use(p.slave, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	return n, err
}
