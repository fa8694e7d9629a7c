package waiting

import (
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/tty"
)

// SeesPipes reports whether this system shows what reads a pipe.
const SeesPipes = false

// scan infers from the terminal's mode that the foreground group wants a secret or a key, because
// this system does not show the call that a process is blocked in. It does not notice that a
// program waits for a line, because the terminal is nearly always in line mode.
func scan(from Source, _ []int) (Evidence, verdict) {
	pty, ok := from.(*tty.PTY)
	if !ok {
		return Evidence{}, busy
	}
	mode, err := pty.Mode()
	if err != nil || kindOf(mode) == kindLine {
		return Evidence{}, busy
	}
	pgid, err := pty.Foreground()
	if err != nil || pgid <= 0 {
		return Evidence{}, busy
	}
	if v := judge(moment{mayRead: true, inTransit: pty.InTransit(), timeout: -1}); v != waits {
		return Evidence{}, v
	}
	ev := Evidence{Kind: kindOf(mode), pid: pgid, tid: pgid, inferred: true}
	if s, err := procfs.Inspect(pgid); err == nil {
		ev.program = s.Program
	}
	return ev, waits
}

// A readerClock is not needed here: no reader is seen.
type readerClock struct{}

func (*readerClock) ran() bool       { return true }
func (*readerClock) follow(Evidence) {}
