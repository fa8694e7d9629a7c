package pyrepl

// A State is how a session stands.
type State struct {
	PID    int    // of its worker; 0: none is alive
	Job    string // the one that it is at; empty: it is idle
	Queued int    // jobs behind that
}

// State tells how the session stands, at once.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{Job: s.turn.job()}
	for _, q := range s.queue {
		if !q.vacates {
			st.Queued++
		}
	}
	if s.w != nil {
		select {
		case <-s.w.handle.Done():
		default:
			st.PID = s.w.handle.PID()
		}
	}
	return st
}
