//go:build unix

package tty

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// PTY is a pair of a master, which the server holds, and a slave, which is a program's terminal.
type PTY struct {
	master, slave *os.File
	device        Device

	turn  chan struct{} // held by the goroutine that sends
	limit time.Duration // bounds one Send
	typed bool          // input can be unread that is no answer; used by the goroutine that sends

	// Not guarded by mu, because the listener can wait for the goroutine that sets it.
	asked atomic.Bool // an answer is being made

	// Guarded by mu.
	mu      sync.Mutex
	size    pty.Winsize // the size last read; Size returns it once the master is closed
	sending bool
	typing  bool
	onSend  func() // nil: no listener; it is called under mu
}

// Device identifies a terminal's device file, whatever name it was opened by and in whichever mount
// namespace.
type Device struct {
	Rdev     uint64 // equals the controlling terminal in a process's Stat
	dev, ino uint64
}

// DeviceOf returns the device that st describes.
func DeviceOf(st *unix.Stat_t) Device {
	return Device{Rdev: uint64(st.Rdev), dev: uint64(st.Dev), ino: uint64(st.Ino)}
}

// Open makes a PTY pair of the given size. The slave stays open until CloseSlave, because closing
// it discards unread output on some systems and prevents asking for unread input on all of them.
func Open(rows, cols uint16) (*PTY, error) {
	m, s, err := pty.Open()
	if errors.Is(err, fs.ErrNotExist) {
		// Linux 6.18 shows no file for a new terminal while another process looks up the file of an
		// ended one that had the same number.
		m, s, err = pty.Open()
	}
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return nil, fmt.Errorf("opening a terminal: all terminals are in use (kernel.pty.max, or max of the devpts mount)")
		}
		return nil, fmt.Errorf("opening a terminal: %w", err)
	}
	defer m.Close()
	defer s.Close()
	if err := pty.Setsize(m, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		return nil, fmt.Errorf("sizing %s: %w", s.Name(), err)
	}
	p := &PTY{turn: make(chan struct{}, 1), limit: sendLimit}
	if p.master, err = reopen(m, true); err != nil {
		return nil, err
	}
	if p.slave, err = reopen(s, false); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.identify(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// reopen returns a new file for a duplicate of f's descriptor, in the wanted mode. creack/pty has
// called Fd on its files, which leaves them marked as blocking whatever the mode of their
// descriptors. The slave stays blocking: in Go's poller it would wake the server at each byte that
// passes the terminal.
func reopen(f *os.File, nonblock bool) (*os.File, error) {
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
	return descriptor.Use(f, func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, getTermios)
		return err
	}) == nil
}

func (p *PTY) identify() error {
	return descriptor.Use(p.slave, func(fd int) error {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		p.device = DeviceOf(&st)
		return err
	})
}

// Master returns the server's end, from which the programs' output is read. Use only its Read,
// Write and SyscallConn.
func (p *PTY) Master() *os.File { return p.master }

// Slave returns the program's end, in blocking mode, to be its standard files. Its name is the path
// of the device, such as /dev/pts/7.
func (p *PTY) Slave() *os.File { return p.slave }

// Device returns the identity of the slave's device.
func (p *PTY) Device() Device { return p.device }

// CloseSlave closes the server's copy of the slave. A read of the master then ends when no program
// has the terminal open. From then on InTransit reports true.
func (p *PTY) CloseSlave() { p.slave.Close() }

// Size returns the rows and columns of the terminal, and after Close those that it had then.
func (p *PTY) Size() (rows, cols int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = descriptor.Use(p.master, func(fd int) error { // an error: it is closed
		size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		if err == nil {
			p.size = pty.Winsize{Rows: size.Row, Cols: size.Col}
		}
		return err
	})
	return int(p.size.Rows), int(p.size.Cols)
}

// Close closes both ends, wakes a Read or Send in progress, and hangs the terminal up.
func (p *PTY) Close() {
	p.Size()
	p.master.Close()
	if p.slave != nil {
		p.slave.Close()
	}
}

// Resize sets the size of the terminal. The kernel sends SIGWINCH to the foreground group if it
// differs from the size before. To the listener it is a Send.
func (p *PTY) Resize(rows, cols uint16) error {
	return p.During(func() error {
		err := descriptor.Use(p.master, func(fd int) error {
			return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
		})
		if err != nil {
			return fmt.Errorf("sizing %s: %w", p.slave.Name(), err)
		}
		return nil
	})
}

// Foreground returns the process group that the kernel lets read the terminal now.
func (p *PTY) Foreground() (pgid int, err error) {
	err = descriptor.Use(p.master, func(fd int) error {
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reading the foreground group of %s: %w", p.slave.Name(), err)
	}
	return pgid, nil
}
