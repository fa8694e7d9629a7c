//go:build unix

package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// These functions are for the terminal that a person sits at, which others have opened.

// A Saved is the mode that a terminal had. As JSON, it can be restored by another process.
type Saved unix.Termios

// Hide stops showing what is typed at a terminal. It returns the mode of before.
func Hide(f *os.File) (Saved, error) {
	return change(f, func(t *unix.Termios) { t.Lflag = t.Lflag&^unix.ECHO | unix.ECHONL })
}

// Raw passes all keys of a terminal on as they are typed, and what is written to it as it is. It
// returns the mode of before.
func Raw(f *os.File) (Saved, error) {
	return change(f, func(t *unix.Termios) { // cfmakeraw does the same: https://man7.org/linux/man-pages/man3/termios.3.html
		t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	})
}

// Save returns the mode of a terminal.
func Save(f *os.File) (Saved, error) { return change(f, func(*unix.Termios) {}) }

// Restore returns a terminal to a mode that it had.
func (s Saved) Restore(f *os.File) error {
	return descriptor.Use(f, func(fd int) error { return unix.IoctlSetTermios(fd, setTermios, (*unix.Termios)(&s)) })
}

// change changes the mode of a terminal and returns the one of before.
func change(f *os.File, to func(*unix.Termios)) (before Saved, err error) {
	err = descriptor.Use(f, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil {
			return err
		}
		before = Saved(*t)
		to(t)
		return unix.IoctlSetTermios(fd, setTermios, t)
	})
	if err != nil {
		return before, fmt.Errorf("setting the mode of %s: %w", f.Name(), err)
	}
	return before, nil
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
