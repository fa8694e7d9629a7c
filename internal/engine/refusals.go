//go:build unix

package engine

import (
	"fmt"
	"maps"
	"slices"

	"asyncrepl/internal/reply/overview"
)

// A NoSessionError says that there is no session of a name.
type NoSessionError struct {
	Name  string
	Names []string // the names of the sessions that exist, in order
	Loss  *Loss    // the session was ended because it was idle; nil: it was not, or lost nothing
}

func (e *NoSessionError) Error() string { return "there is no session " + e.Name }

// noSession returns the error for the name of a missing session. The caller holds mu.
func (e *Engine) noSession(name string) error {
	err := &NoSessionError{Name: name, Names: slices.Sorted(maps.Keys(e.sessions))}
	if old := e.expired[name]; old != nil {
		err.Loss = old.loss
	}
	return err
}

// A SessionExistsError says that a session can't be made because there is one of that name.
type SessionExistsError struct {
	Session overview.Session

	of session // the existing session; described reads its state
}

func (e *SessionExistsError) Error() string {
	return fmt.Sprintf("session %s exists", e.Session.Name)
}

// A TooManySessionsError says that no more sessions are allowed.
type TooManySessionsError struct {
	Open int
	Idle overview.Session // the session that has been idle longest; without a name: all are busy

	idle *session // the session of Idle; described reads its state
}

func (e *TooManySessionsError) Error() string {
	return fmt.Sprintf("%d sessions are open, the most allowed (REPL_MAX_SESSIONS)", e.Open)
}

// tooMany returns the error for a session that can't be made. The caller holds mu.
func (e *Engine) tooMany() error {
	err := &TooManySessionsError{Open: len(e.sessions)}
	for _, s := range e.sessions {
		if st := s.State(); st.Idle() && (err.idle == nil || s.idleSince(st).Before(err.idle.idleSince(err.idle.State()))) {
			idle := *s
			err.idle = &idle
		}
	}
	return err
}

// described adds the state of the session to an error of canMake. Reading the state scans /proc, so
// canMake leaves it out: its caller holds mu.
func (e *Engine) described(err error) error {
	switch err := err.(type) {
	case *SessionExistsError:
		err.Session = e.statusOf(err.of)
	case *TooManySessionsError:
		if err.idle != nil {
			err.Idle = e.statusOf(*err.idle)
		}
	}
	return err
}
