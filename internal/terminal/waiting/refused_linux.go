package waiting

// infer is probe.thread for a thread that can't be inspected. The thread is in the foreground, is
// stopped or has another terminal. If it is in the foreground and the
// terminal takes lines without echo, it may want a secret: programs set that mode for nothing else.
// A [history] waits until the terminal has been quiet.
func (p *probe) infer(t thread) (Evidence, verdict) {
	terminal, is := p.input.(terminalInput)
	if !is || t.stat.Terminal != terminal.device.Rdev || t.stat.State == 'T' {
		return Evidence{}, busy
	}
	mode, err := terminal.mode()
	switch {
	case err != nil:
		return Evidence{}, verdictAfter(err)
	case kindOf(mode) != kindSecret:
		return Evidence{}, busy
	case terminal.inTransit():
		return Evidence{}, uncertain
	}
	return Evidence{Kind: kindSecret, pid: t.PID, tid: t.TID, program: t.stat.Program, inferred: true}, refused
}
