package queries_test

import "golang.org/x/sys/unix"

func getMode(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TCGETS) }

func setMode(fd int, mode *unix.Termios) error { return unix.IoctlSetTermios(fd, unix.TCSETS, mode) }
