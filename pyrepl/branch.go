package pyrepl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"asyncrepl/pyrepl/checkpoint"
)

// Shared is what a branch has in common with its parent and can't have for itself, in words:
// connections, files open for writing, memory, children.
type Shared []string

// A BusyError says that a session did not become idle in time.
type BusyError struct {
	Session string
	Job     string // the running job; empty: no job runs
	Waits   bool   // the job waits for input
	Doing   string // the session's activity if no job runs, such as "a restart"
}

func (e *BusyError) Error() string {
	return "session " + e.Session + " is busy" + e.With()
}

// With says what the session is busy with, as " with job J".
func (e *BusyError) With() string {
	switch {
	case e.Waits:
		return " with job " + e.Job + ", which waits for input"
	case e.Job != "":
		return " with job " + e.Job
	}
	return " with " + e.Doing
}

// busy returns an error that names the job or the activity that has the turn. The caller holds mu.
func (s *Session) busy() *BusyError {
	job := s.turn.job()
	return &BusyError{Session: s.name, Job: job, Waits: job != "" && s.turn.port.Waits(), Doing: cmp.Or(s.doing(), "a question")}
}

// A DeletedError says that a session was deleted while its branch waited for its turn.
type DeletedError struct{ Session string }

func (e *DeletedError) Error() string {
	return "session " + e.Session + " was deleted while its branch waited for it, and its variables are lost"
}

// errNoPython refuses to branch a session that has nothing to continue with.
var errNoPython = errors.New("it runs no Python yet; run a job in it first")

// Branch makes a session that continues with a copy of the variables of s: its worker is a fork of
// the worker of s. Neither touches the other from then on, except by what they share. Branch waits
// for its turn in s. If ctx is done before the turn has come, the error is a [*BusyError]; any
// other error says why the worker can't be forked. cfg says how a later worker of the branch
// starts.
func (s *Session) Branch(ctx context.Context, name string, cfg Config) (*Session, Shared, error) {
	return s.branch(ctx, "session "+s.name, name, cfg, "")
}

// ErrNotKept says that the state after a job can't be branched: it has no checkpoint, and its
// session has another state now. If the checkpoint is gone, the error says why after this text.
var ErrNotKept = errors.New("the state after the job is not kept")

// BranchAfter is [Session.Branch] from the state after a job of s: from its checkpoint or, if no
// later job has changed the variables, from s as it is.
func (s *Session) BranchAfter(ctx context.Context, job, name string, cfg Config) (*Session, Shared, error) {
	c, err := s.continued(ctx, job, name, cfg)
	missing, ok := errors.AsType[*checkpoint.MissingError](err)
	switch {
	case !ok:
		return c.session, c.shared, err
	case s.isAfter(job):
		return s.branch(ctx, "session "+s.name, name, cfg, job)
	case missing.Gone != nil:
		return nil, nil, fmt.Errorf("%w: %v", ErrNotKept, missing.Gone)
	}
	return nil, nil, ErrNotKept
}

// isAfter reports whether the variables of s are as a job left them.
func (s *Session) isAfter(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.history.entries)
	return n > 0 && s.history.entries[n-1].Job == job && s.w != nil && !s.w.Ended()
}

// branch is Branch, but returns ErrNotKept if after names a job and another one has changed the
// variables since. Errors name the session by who.
func (s *Session) branch(ctx context.Context, who, name string, cfg Config, after string) (*Session, Shared, error) {
	t := &ticket{ready: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, errClosed
	}
	s.push(t)
	s.mu.Unlock()
	if err := s.await(ctx, t); err != nil {
		return nil, nil, s.noTurn(ctx, err)
	}
	defer s.release(t, "")
	if after != "" && !s.isAfter(after) {
		return nil, nil, ErrNotKept
	}
	b, shared, err := s.fork(context.WithoutCancel(ctx), t, name, cfg) // ctx bounds the wait only
	if err != nil {
		return nil, nil, fmt.Errorf("%s can't be branched now: %w", who, err)
	}
	return b, shared, nil
}

// noTurn returns the error of a branch whose turn did not come because of err.
func (s *Session) noTurn(ctx context.Context, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &DeletedError{s.name}
	case ctx.Err() != nil:
		return s.busy()
	}
	return fmt.Errorf("session %s was not branched: %w; run a job there that makes what the branch needs, then branch it", s.name, err)
}

// fork is Branch for the holder of the turn, t. It ends early if ctx is done or the session is
// reset.
func (s *Session) fork(ctx context.Context, t *ticket, name string, cfg Config) (*Session, Shared, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if t.cancelFork = cancel; s.resets() {
		cancel()
	}
	b := NewSession(name, cfg)
	b.names, b.hidden, b.asOf, b.history = s.names, s.hidden, s.asOf, s.history
	b.history.entries = slices.Clone(s.history.entries)
	w := s.w
	s.mu.Unlock()
	if w == nil {
		return nil, nil, errNoPython
	}
	forked, shared, err := w.Fork(ctx, cfg.Owner, s.name)
	b.w = forked
	if err != nil && ctx.Err() == nil && w.Ended() {
		advice := "run again what made them"
		if s.checkpoints.Has(s) {
			advice += ", or restart the session from a checkpoint"
		}
		err = fmt.Errorf("its Python %s between jobs, and its variables are lost; %s", w.ExitText(), advice)
	}
	return b, shared, err
}
