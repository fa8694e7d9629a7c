//go:build unix

package engine

import (
	"fmt"
	"maps"
	"slices"

	"asyncrepl/internal/overview"
)

// A NoSessionError says that there is no session of a name.
type NoSessionError struct {
	Name  string
	Names []string // of the sessions, in order
	Loss  *Loss    // the session was ended because it was idle; nil: it was not, or lost nothing
}

func (e *NoSessionError) Error() string { return "there is no session " + e.Name }

// noSession returns the error for a name. The caller holds mu.
func (e *Engine) noSession(name string) error {
	err := &NoSessionError{Name: name, Names: slices.Sorted(maps.Keys(e.sessions))}
	if old := e.expired[name]; old != nil {
		err.Loss = old.loss
	}
	return err
}

// A SessionExistsError says that a session can't be made because there is one of that name.
type SessionExistsError struct{ Session overview.Session }

func (e *SessionExistsError) Error() string {
	return fmt.Sprintf("session %s exists", e.Session.Name)
}

// A TooManySessionsError says that no more sessions are allowed.
type TooManySessionsError struct {
	Open int
	Idle overview.Session // the one that has been idle longest; without a name: all are busy
}

func (e *TooManySessionsError) Error() string {
	return fmt.Sprintf("%d sessions are open, the most allowed (REPL_MAX_SESSIONS)", e.Open)
}

// tooMany returns the error for a session that can't be made. The caller holds mu.
func (e *Engine) tooMany(sc Scope) error {
	err := &TooManySessionsError{Open: len(e.sessions)}
	var idle *session
	for _, s := range e.sessions {
		if st := s.State(); st.Idle() && (idle == nil || s.idleSince(st).Before(idle.idleSince(idle.State()))) {
			idle = s
		}
	}
	if idle != nil {
		err.Idle = e.statusOf(sc, *idle)
	}
	return err
}
