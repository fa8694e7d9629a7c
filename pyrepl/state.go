package pyrepl

// A State is how a session stands.
type State struct {
	PID    int    // of its worker; 0: none is alive
	Memory int64  // bytes resident of the worker's tree; 0: not known
	Job    string // the one that it is at; empty: it is idle
	Queued int    // jobs behind that
}

// State returns how the session stands. It does not wait for the worker.
func (s *Session) State() State {
	st, w := s.state()
	if w != nil {
		u, _ := w.handle.Usage() // an error: the worker has ended, or the system does not say
		st.Memory = u.Memory
	}
	return st
}

// state returns the State but for its Memory, and the living worker, if any.
func (s *Session) state() (st State, living *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Job = s.turn.job()
	for _, q := range s.queue {
		if !q.vacates {
			st.Queued++
		}
	}
	if s.w != nil {
		select {
		case <-s.w.handle.Done():
		default:
			st.PID, living = s.w.handle.PID(), s.w
		}
	}
	return st, living
}
