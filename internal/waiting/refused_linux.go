package waiting

// infer is thread for one that can't be inspected. It is in the foreground or stopped, or has another
// terminal. In the foreground of a terminal whose mode is that of a secret, it may want one: nothing
// else sets that mode. A [history] waits until the terminal has been quiet.
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
