//go:build unix

package tty

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// PTY is a pair of a master, which the server holds, and a slave, which is the terminal of a program.
type PTY struct {
	master, slave *os.File
	name          string
	node          node

	turn  chan struct{} // held by the one who sends
	limit time.Duration // of one Send

	mu    sync.Mutex // orders what is sent and what is said
	marks uint64     // one more at each start and each end of a Send: odd while one is under way
	watch *Watch     // told at each mark, under mu, to take back what it said; nil: nobody watches
}

// node identifies the slave's device file whatever name it was opened by and in whichever mount namespace.
type node struct{ dev, ino, rdev uint64 }

// Open makes a PTY pair of the given size. The slave stays open until CloseSlave, for a closed one takes unread output
// with it on some systems and can't be asked for unread input on any.
func Open(rows, cols uint16) (*PTY, error) {
	m, s, err := pty.Open()
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return nil, fmt.Errorf("opening a terminal: all that there may be are in use (kernel.pty.max, or max of the devpts mount)")
		}
		return nil, fmt.Errorf("opening a terminal: %w", err)
	}
	defer m.Close()
	defer s.Close()
	p := &PTY{name: s.Name(), turn: make(chan struct{}, 1), limit: sendLimit}
	if p.master, err = renew(m, true); err != nil {
		return nil, err
	}
	if p.slave, err = renew(s, false); err != nil {
		p.Close()
		return nil, err
	}
	if err := errors.Join(p.identify(), p.Resize(rows, cols)); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// renew gives f's descriptor a file of its own in the wanted mode. creack/pty has called Fd on its files, after which
// they remain marked as blocking whatever the descriptor's flags say; and a slave in Go's poller would wake us at each
// byte that passes the terminal.
func renew(f *os.File, nonblock bool) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicating %s: %w", f.Name(), err)
	}
	if err := unix.SetNonblock(fd, nonblock); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("setting the mode of %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	return control(f, func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, getTermios)
		return err
	}) == nil
}

func (p *PTY) identify() error {
	return control(p.slave, func(fd int) error {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		p.node = nodeOf(&st)
		return err
	})
}

func nodeOf(st *unix.Stat_t) node {
	return node{dev: uint64(st.Dev), ino: uint64(st.Ino), rdev: uint64(st.Rdev)}
}

// Master is our end: programs' output is read from it. Use its Read, Write and SyscallConn only.
func (p *PTY) Master() *os.File { return p.master }

// Slave is the program's end, in blocking mode, to be given to the program as its standard files.
func (p *PTY) Slave() *os.File { return p.slave }

// Name is the path of the slave's device, such as /dev/pts/7.
func (p *PTY) Name() string { return p.name }

// Device is the number of the slave's device, as a stat of it or a process's controlling terminal shows it.
func (p *PTY) Device() uint64 { return p.node.rdev }

// CloseSlave closes our copy of the slave. A read of the master then ends when no program holds the terminal. From here
// on Unread fails and no evidence is found.
func (p *PTY) CloseSlave() { p.slave.Close() }

// Close closes both ends, wakes a Read or Send that is under way, and hangs the terminal up.
func (p *PTY) Close() {
	p.master.Close()
	if p.slave != nil {
		p.slave.Close()
	}
}

// Resize sets the size; the kernel tells the foreground group.
func (p *PTY) Resize(rows, cols uint16) error {
	err := control(p.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err != nil {
		return fmt.Errorf("resizing %s: %w", p.name, err)
	}
	return nil
}

// Foreground is the number of the process group that may read the terminal now.
func (p *PTY) Foreground() (pgid int, err error) {
	err = control(p.master, func(fd int) error {
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("asking for the foreground group of %s: %w", p.name, err)
	}
	return pgid, nil
}

// Mode is how the terminal treats what is typed.
type Mode struct {
	Echo    bool // shows it
	Canon   bool // hands it on in lines
	Signals bool // makes signals of ^C, ^\ and ^Z
	EOF     byte // the character that stands for the end of file

	limit time.Duration // after which a read ends without input; 0: none
}

// Mode reads how the terminal treats input now.
func (p *PTY) Mode() (Mode, error) {
	var t *unix.Termios
	err := control(p.master, func(fd int) (err error) {
		t, err = unix.IoctlGetTermios(fd, getTermios)
		return err
	})
	if err != nil {
		return Mode{}, fmt.Errorf("reading the mode of %s: %w", p.name, err)
	}
	var limit time.Duration
	if t.Lflag&unix.ICANON == 0 && t.Cc[unix.VMIN] == 0 {
		limit = time.Duration(t.Cc[unix.VTIME]) * (time.Second / 10)
	}
	return Mode{
		limit:   limit,
		Echo:    t.Lflag&unix.ECHO != 0,
		Canon:   t.Lflag&unix.ICANON != 0,
		Signals: t.Lflag&unix.ISIG != 0,
		EOF:     t.Cc[unix.VEOF],
	}, nil
}

// Unread is the number of bytes of input that a read of the terminal would find now; half a line of a cooked terminal
// is none, and neither is an end of file.
func (p *PTY) Unread() (n int, err error) {
	err = control(p.slave, func(fd int) error {
		n, err = unix.IoctlGetInt(fd, inputQueue)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("asking for unread input of %s: %w", p.name, err)
	}
	return n, nil
}

// control runs f on the descriptor of file, which stays open meanwhile and keeps its mode.
func control(file *os.File, f func(fd int) error) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := c.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}
