package tty

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	inputQueue = 0x4004667f // FIONREAD, which x/sys does not name here
)

// InTransit reports whether there is input that no program has read. It reports true if the
// terminal can't be asked.
func (p *PTY) InTransit() bool {
	unread := 0
	err := control(p.slave, func(fd int) (err error) {
		unread, err = unix.IoctlGetInt(fd, inputQueue)
		return err
	})
	return err != nil || unread > 0
}
