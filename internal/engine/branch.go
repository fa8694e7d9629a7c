//go:build unix

package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
	"asyncrepl/pyrepl/checkpoint"
)

// Aliases, so that front ends need not import pyrepl.
type (
	Shared    = pyrepl.Shared    // what a branch has in common with its parent
	BusyError = pyrepl.BusyError // a session was not idle in time

	DeletedError           = pyrepl.DeletedError     // a session was deleted before its branch
	MissingCheckpointError = checkpoint.MissingError // a session has no such checkpoint
)

// errShutdown refuses branches and tenants once the engine or the server closes.
var errShutdown = errors.New("the server is shutting down")

// Branch makes a session that continues with a copy of the variables of another one, and has its
// settings and environment. It waits for its turn in that session; if ctx is done before, the error
// is a [*BusyError]. It can be any error of Create, too, or a [*NoSessionError] about from, or say
// why from can't be branched now.
func (e *Engine) Branch(ctx context.Context, from, name string) (overview.Session, Shared, error) {
	fork := func(parent Python, name string, cfg pyrepl.Config) (Python, Shared, error) {
		return parent.Branch(ctx, name, cfg)
	}
	return e.branch(from, name, fork)
}

// ErrNotKept says that the state after a job can't be continued without running code again. If the
// job's checkpoint is gone, the error says why after this text.
var ErrNotKept = pyrepl.ErrNotKept

// Continue makes a session like [Engine.Branch], but from the state after a job. It branches from
// the job's checkpoint or, if no later job has changed the variables there, from the job's session
// or a branch of that session. If name is empty, Continue chooses a free name. The error can be
// [ErrNotKept].
func (e *Engine) Continue(ctx context.Context, job jobs.Record, name string) (overview.Session, Shared, error) {
	var refused error
	fork := func(parent Python, name string, cfg pyrepl.Config) (Python, Shared, error) {
		return parent.BranchAfter(ctx, job.ID, name, cfg)
	}
	for _, from := range e.holders(job) {
		status, shared, err := e.branch(from, name, fork)
		if !errors.Is(err, ErrNotKept) {
			return status, shared, err
		}
		if refused == nil {
			refused = err // the job's own session comes first
		}
	}
	return overview.Session{}, nil, cmp.Or(refused, ErrNotKept)
}

// holders returns the names of the sessions that can have the state after a job: the job's own
// session first, then every session that ran the job last.
func (e *Engine) holders(job jobs.Record) (names []string) {
	for _, s := range e.list() {
		if s.Name() == job.Session {
			names = slices.Insert(names, 0, s.Name())
		} else if h := s.History().Entries; len(h) > 0 && h[len(h)-1].Job == job.ID && !h[len(h)-1].Ended.IsZero() {
			names = append(names, s.Name())
		}
	}
	return names
}

// A forkFunc makes a session that continues with the variables of parent, or with earlier ones, and
// returns what the two share.
type forkFunc func(parent Python, name string, cfg pyrepl.Config) (b Python, shared Shared, err error)

// branch makes a session that fork forks off another one.
func (e *Engine) branch(from, name string, fork forkFunc) (overview.Session, Shared, error) {
	parent, name, err := e.branchable(from, name)
	if err != nil {
		return overview.Session{}, nil, e.described(err)
	}
	spec := parent.spec
	spec.Name = name
	b, shared, err := fork(parent.Python, name, e.configOf(parent.scope, spec, parent.packages))
	if err != nil {
		return overview.Session{}, nil, err
	}
	s, err := e.addBranch(spec, parent, b)
	if err != nil {
		b.Close()
		return overview.Session{}, nil, e.described(err)
	}
	return e.statusOf(s), shared, nil
}

// branchable returns the session from and the name of its branch, or why it can't have one.
func (e *Engine) branchable(from, name string) (*session, string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	parent := e.sessions[from]
	if parent == nil {
		return nil, "", e.noSession(from)
	}
	name = e.freeName(from, name)
	if err := e.canMake(name); err != nil {
		return nil, "", err
	}
	parent.opened = time.Now() // so that it is not ended as idle while its branch waits
	return parent, name, nil
}

// addBranch adds a branch to the table, unless a session of its name was made meanwhile.
func (e *Engine) addBranch(spec SessionSpec, parent *session, b Python) (session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return session{}, errShutdown
	}
	if err := e.canMake(spec.Name); err != nil {
		return session{}, err
	}
	s := e.add(parent.scope, spec, parent.packages, b)
	s.named, s.parent = true, parent.Name()
	return *s, nil
}
