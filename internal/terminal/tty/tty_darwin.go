package tty

import (
	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
	inputQueue = 0x4004667f // FIONREAD, which x/sys does not name here
)

// InTransit reports whether there is input that no program has read. It reports true if the
// terminal can't be asked.
func (p *PTY) InTransit() bool {
	n, err := p.unread()
	return err != nil || n > 0
}

// unread returns how many bytes of input no program has read.
func (p *PTY) unread() (n int, err error) {
	err = descriptor.Use(p.slave, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, inputQueue)
		return err
	})
	return n, err
}
