//go:build unix

package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// These functions are for the terminal that a person sits at, which others have opened.

// Hide stops showing what is typed at a terminal. restore returns it to its mode of before.
func Hide(f *os.File) (restore func() error, err error) {
	return change(f, func(t *unix.Termios) { t.Lflag = t.Lflag&^unix.ECHO | unix.ECHONL })
}

// Raw passes all keys of a terminal on as they are typed, and what is written to it as it is.
// restore returns it to its mode of before.
func Raw(f *os.File) (restore func() error, err error) {
	return change(f, func(t *unix.Termios) { // cfmakeraw does the same: https://man7.org/linux/man-pages/man3/termios.3.html
		t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	})
}

// Keep changes nothing. restore returns the terminal to the mode that it has now.
func Keep(f *os.File) (restore func() error, err error) { return change(f, func(*unix.Termios) {}) }

// change changes the mode of a terminal.
func change(f *os.File, to func(*unix.Termios)) (restore func() error, err error) {
	var before *unix.Termios
	set := func(t *unix.Termios) error {
		return descriptor.Use(f, func(fd int) error { return unix.IoctlSetTermios(fd, setTermios, t) })
	}
	err = descriptor.Use(f, func(fd int) (err error) {
		before, err = unix.IoctlGetTermios(fd, getTermios)
		return err
	})
	if err == nil {
		after := *before
		to(&after)
		err = set(&after)
	}
	if err != nil {
		return nil, fmt.Errorf("setting the mode of %s: %w", f.Name(), err)
	}
	return func() error { return set(before) }, nil
}

// SizeOf returns the size of a terminal.
func SizeOf(f *os.File) (rows, cols int, err error) {
	err = descriptor.Use(f, func(fd int) error {
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			rows, cols = int(size.Row), int(size.Col)
		}
		return err
	})
	return rows, cols, err
}
