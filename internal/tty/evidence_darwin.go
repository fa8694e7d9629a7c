package tty

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// look infers from the terminal's mode that the foreground group wants a secret or a key: nothing here shows what a
// process is blocked in. A line that is awaited is not seen, for the mode is then what it always is.
func (p *PTY) look([]int) (Evidence, verdict) {
	mode, err := p.Mode()
	if err != nil || mode.kind() == Line {
		return Evidence{}, busy
	}
	pgid, err := p.Foreground()
	if err != nil || pgid <= 0 {
		return Evidence{}, busy
	}
	if n, err := p.Unread(); err != nil || n > 0 {
		return Evidence{}, passing
	}
	ev := Evidence{PID: pgid, TID: pgid, Kind: mode.kind(), Inferred: true}
	if k, err := unix.SysctlKinfoProc("kern.proc.pid", pgid); err == nil {
		name, _, _ := bytes.Cut(k.Proc.P_comm[:], []byte{0})
		ev.Program = string(name)
	}
	return ev, waits
}
