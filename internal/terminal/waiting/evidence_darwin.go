package waiting

import (
	"context"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/terminal/tty"
)

// SeesPipes reports whether this system shows what reads a pipe.
const SeesPipes = false

// A probe is one scan of a job.
type probe struct {
	from          Source
	pids, outside []int
}

func newProbe(from Source, pids []int) *probe { return &probe{from: from, pids: pids} }

// scan infers from the terminal's mode that the foreground group wants a secret or a key, because
// this system does not show the call that a process is blocked in. It does not notice that a
// program waits for a line, because the terminal is nearly always in line mode.
func (p *probe) scan() (Evidence, verdict) {
	pty, ok := p.from.(*tty.PTY)
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

// outside is not needed here: no reader is seen.
type outside struct{}

func (outside) pids() []int                           { return nil }
func (outside) pending() time.Time                    { return time.Time{} }
func (*outside) search(*probe, func() time.Time) bool { return false }

// ReadOutside reports nothing: no reader is seen.
func ReadOutside(context.Context, *tty.PTY, func() ([]int, error)) (reads, unknown bool) {
	return false, false
}

// A readerClock is not needed here: no reader is seen.
type readerClock struct{}

func (*readerClock) ran() bool             { return true }
func (*readerClock) follow(Evidence)       {}
func (*readerClock) others() time.Duration { return 0 }
