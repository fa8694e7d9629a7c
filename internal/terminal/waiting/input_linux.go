package waiting

import (
	"fmt"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/terminal/stdin"
	"asyncrepl/internal/terminal/tty"
)

// SeesPipes reports whether this system shows what reads a pipe.
const SeesPipes = true

// An input is a Source as a scan sees it.
type input interface {
	// is reports whether st describes the source, as the thread t has it open.
	is(t thread, st *unix.Stat_t) bool

	// pipe returns the link by which /proc shows the source, or nothing if it is a terminal.
	pipe() string

	// mayRead reports whether the kernel would let the process read the source.
	mayRead(s procfs.Stat) bool

	// mode returns how the source treats input.
	mode() (tty.Mode, error)

	// inTransit reports whether there is input that no program has read, or output that the server
	// has not read although it was printed to the source.
	inTransit() bool
}

func inputOf(from Source) input {
	switch from := from.(type) {
	case *tty.PTY:
		return terminalInput{from, from.Device()}
	case *stdin.Pipe:
		return pipeInput{from}
	}
	panic(fmt.Sprintf("waiting: a source of type %T", from))
}

// terminalInput is a terminal. A process that reads it is in its foreground group, or not under its
// job control.
type terminalInput struct {
	pty    *tty.PTY
	device tty.Device
}

// controlling is the device number of /dev/tty, which is the terminal if the terminal controls the
// process.
var controlling = unix.Mkdev(5, 0)

func (i terminalInput) is(t thread, st *unix.Stat_t) bool {
	if st.Rdev == controlling && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return t.stat.Terminal == i.device.Rdev
	}
	return tty.DeviceOf(st) == i.device
}

func (i terminalInput) mayRead(s procfs.Stat) bool {
	if s.Terminal != i.device.Rdev {
		return true
	}
	foreground, _ := i.pty.Foreground() // 0, no group, if none is left
	return s.Group == foreground
}

func (i terminalInput) pipe() string            { return "" }
func (i terminalInput) mode() (tty.Mode, error) { return i.pty.Mode() }
func (i terminalInput) inTransit() bool         { return i.pty.InTransit() }

// pipeInput is a pipe, which every process may read that has it open. It has lines, and what a
// program prints does not go through it.
type pipeInput struct{ *stdin.Pipe }

func (i pipeInput) is(_ thread, st *unix.Stat_t) bool { return i.Is(st) }
func (i pipeInput) pipe() string                      { return i.Link() }
func (i pipeInput) mayRead(procfs.Stat) bool          { return true }
func (i pipeInput) mode() (tty.Mode, error)           { return tty.Mode{Canon: true, Echo: true}, nil }
func (i pipeInput) inTransit() bool                   { return i.Unread() }
