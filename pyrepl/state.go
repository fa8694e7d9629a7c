package pyrepl

import (
	"time"

	"asyncrepl/internal/process"
)

// A State is a session's activity at one moment.
type State struct {
	PID       int           // the worker's pid; 0: no worker is alive
	Job       string        // the running job; empty: no job runs
	Doing     string        // the activity while no job runs, such as "a restart"; empty: none
	Queued    int           // jobs that wait for their turn
	Taken     int           // places in the queue that jobs have taken so far
	Variables int           // names in the namespace, as last reported
	Jobs      int           // jobs that have begun and ended
	Ran       time.Duration // the time that these jobs ran, without their wait in the queue
	Used      time.Time     // the end of the last job; zero: no job has ended
}

// Idle reports whether no job runs or waits for its turn.
func (st State) Idle() bool { return st.Job == "" && st.Doing == "" && st.Queued == 0 }

// State returns the session's activity. It asks neither the worker nor the kernel, so it is cheap.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := State{Job: s.turn.job(), Doing: s.doing(), Taken: s.taken, Variables: len(s.names), Jobs: s.jobs, Ran: s.ran, Used: s.used}
	for _, q := range s.queue {
		if !q.resets {
			st.Queued++
		}
	}
	switch {
	case s.w == nil:
	case s.w.Ended(): // no job has noticed yet: the names are lost
		st.Variables = 0
	default:
		st.PID = s.w.Process().PID()
	}
	return st
}

// doing names the activity of a busy session that runs no job, or returns "". The caller holds mu.
func (s *Session) doing() string {
	switch {
	case s.turn == nil || s.turn.port != nil:
	case s.turn.resets:
		return "a restart"
	case s.turn.cancelFork != nil:
		return "a fork"
	}
	return ""
}

// Stopped reports whether a signal has stopped the worker.
func (s *Session) Stopped() bool {
	s.mu.Lock()
	w := s.w
	s.mu.Unlock()
	return w != nil && w.Stopped()
}

// Usage returns the resources that the processes of the session use.
func (s *Session) Usage() process.Usage {
	s.mu.Lock()
	w := s.w
	s.mu.Unlock()
	if w == nil {
		return process.Usage{}
	}
	// An error means that the worker has ended or the system does not say.
	u, _ := w.Process().Usage()
	return u
}

// count adds a job that began at a time and has ended.
func (s *Session) count(began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs++
	s.ran += time.Since(began)
}
