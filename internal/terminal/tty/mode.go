//go:build unix

package tty

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// Mode is how the terminal treats input.
type Mode struct {
	Echo  bool // shows it
	Canon bool // passes it on in lines
	eof   byte // the character that stands for the end of file, if Canon is set

	rawEnter bool // passes on what the Enter key sends, and makes no newline of it

	signals [3]byte // the keys that it makes SIGINT, SIGQUIT and SIGTSTP of; 0: none

	// ReadTimeout is the time after which a read ends without input: VTIME if VMIN is 0, see
	// https://man7.org/linux/man-pages/man3/termios.3.html. 0 means that a read has no limit.
	ReadTimeout time.Duration
}

// Silent reports whether programs read input as it comes and no one sees it: only then an answer of
// the terminal can't be taken for something that a person has typed. In line mode without echo it
// would become part of a password.
func (m Mode) Silent() bool { return !m.Echo && !m.Canon }

// Signal returns the name of the signal that the terminal makes of a key, or "".
func (m Mode) Signal(key byte) string {
	if i := bytes.IndexByte(m.signals[:], key); i >= 0 && key != 0 {
		return [...]string{"SIGINT", "SIGQUIT", "SIGTSTP"}[i]
	}
	return ""
}

// lines returns text with the line ends that a program expects. One that reads keys and gets Enter as
// it is sent gets it for each newline, as terminals do with pasted text.
func (m Mode) lines(text string) string {
	if m.Canon || !m.rawEnter {
		return text
	}
	return strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(text)
}

// Mode returns how the terminal treats input now.
func (p *PTY) Mode() (Mode, error) {
	var t *unix.Termios
	err := descriptor.Use(p.master, func(fd int) (err error) {
		t, err = unix.IoctlGetTermios(fd, getTermios)
		return err
	})
	if err != nil {
		return Mode{}, fmt.Errorf("reading the mode of %s: %w", p.slave.Name(), err)
	}
	m := Mode{
		Echo:  t.Lflag&unix.ECHO != 0,
		Canon: t.Lflag&unix.ICANON != 0,

		rawEnter: t.Iflag&unix.ICRNL == 0,
	}
	if t.Lflag&unix.ISIG != 0 {
		m.signals = [3]byte{t.Cc[unix.VINTR], t.Cc[unix.VQUIT], t.Cc[unix.VSUSP]}
	}
	switch {
	case m.Canon:
		m.eof = t.Cc[unix.VEOF]
	case t.Cc[unix.VMIN] == 0:
		m.ReadTimeout = time.Duration(t.Cc[unix.VTIME]) * (time.Second / 10)
	}
	return m, nil
}
