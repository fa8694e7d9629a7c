package tty

import "golang.org/x/sys/unix"

const (
	getTermios = unix.TIOCGETA
	inputQueue = 0x4004667f // FIONREAD, which x/sys does not name here
)
