package waiting

import (
	"asyncrepl/internal/procfs"
	"asyncrepl/internal/tty"
)

// scan infers from the terminal's mode that the foreground group wants a secret or a key: nothing
// here shows what a process is blocked in. It does not see that a program waits for a line, because
// the mode is then what it always is.
func scan(pty *tty.PTY, _ []int) (Evidence, verdict) {
	mode, err := pty.Mode()
	if err != nil || kindOf(mode) == Line {
		return Evidence{}, busy
	}
	pgid, err := pty.Foreground()
	if err != nil || pgid <= 0 {
		return Evidence{}, busy
	}
	if v := judge(moment{mayRead: true, inTransit: pty.InTransit(), timeout: -1}); v != waits {
		return Evidence{}, v
	}
	ev := Evidence{PID: pgid, TID: pgid, Kind: kindOf(mode), Inferred: true}
	if s, err := procfs.Inspect(pgid); err == nil {
		ev.Program = s.Program
	}
	return ev, waits
}

// Sees reports false: the kernel shows nothing of what a process waits for.
func Sees(int) bool { return false }
