//go:build unix

package engine

// Rests reports whether the end of the engine would cost its client nothing: there is no job, no
// variable, no checkpoint, no session with settings, no shell session and no process except Pythons
// without variables. It scans /proc.
func (e *Engine) Rests() bool {
	if e.away != nil && e.away.InUse() {
		return false
	}
	if e.hasSettings() || len(e.jobs.Totals().Now) > 0 || len(e.checkpoints()) > 0 {
		return false
	}
	pythons := 0
	for _, s := range e.all() {
		st := s.State()
		if !st.Idle() || st.Variables > 0 {
			return false
		}
		if st.PID != 0 {
			pythons++
		}
	}
	return e.owner.Census().Trees.Processes <= pythons
}

// hasSettings reports whether a client has made a session with its settings, or a shell session.
func (e *Engine) hasSettings() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		if s.named {
			return true
		}
	}
	return len(e.shells) > 0
}
