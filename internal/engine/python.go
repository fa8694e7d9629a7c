//go:build unix

package engine

import (
	"context"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// A Python is a session as the engine knows it. A [Pythons] makes them: package pyrepl, or a
// replacement in tests.
type Python interface {
	Session

	Name() string
	// State returns the state of the session, from memory.
	State() pyrepl.State
	// Usage returns the memory and CPU time that the session's processes use. Stopped reports
	// whether a signal has stopped its interpreter. Both read /proc, so the engine calls them
	// without its lock: calls for other sessions would wait meanwhile.
	Usage() process.Usage
	Stopped() bool
	// Live reports whether variables, jobs or checkpoints would be lost with the session.
	Live() bool
	// Lost returns the death of its interpreter between jobs, or nil.
	Lost() *Loss
	// Imported returns which of the modules its interpreter has imported.
	Imported(ctx context.Context, modules []string) ([]string, error)

	// SetCheckpoints has the session keep its checkpoints in c. It comes before the first job.
	SetCheckpoints(c *pyrepl.Checkpoints)
	// SetNote sets the note for the receipt of the next job.
	SetNote(note string)
	// Hold returns a runner that runs run and has the first place in the queue of the session.
	Hold(run jobs.Runner) jobs.Runner
	// Replay returns a runner that runs the earlier code of r again, and then its work.
	Replay(r pyrepl.Replay) jobs.Runner

	// Branch waits for its turn and makes a session that continues with a copy of the variables.
	// BranchAfter makes a session with the variables as they were after a job. See
	// [pyrepl.Session].
	Branch(ctx context.Context, name string, cfg pyrepl.Config) (Python, Shared, error)
	BranchAfter(ctx context.Context, job, name string, cfg pyrepl.Config) (Python, Shared, error)

	// Delete ends the session for good. DeleteIdle does so only if no job uses the session, and
	// reports whether it did.
	Delete(by jobs.By, reason string) (wait func(ctx context.Context) (End, error), err error)
	DeleteIdle(how string) (*Loss, bool)
	// Close ends the session at once. Its jobs have been stopped.
	Close()
}

// Pythons make sessions, and let them exit together.
type Pythons interface {
	// New returns a session that has started nothing.
	New(name string, cfg pyrepl.Config) Python
	// LetExit asks the interpreters of idle sessions to exit. wait gives them a limited time, and
	// returns the names of the sessions that did not exit in time.
	LetExit(all []Python) (wait func() (cut []string))
}

// pyrepls are the sessions of package pyrepl.
type pyrepls struct{}

func (pyrepls) New(name string, cfg pyrepl.Config) Python {
	return pyreplSession{pyrepl.NewSession(name, cfg)}
}

func (pyrepls) LetExit(all []Python) (wait func() (cut []string)) {
	var sessions []*pyrepl.Session
	for _, s := range all {
		sessions = append(sessions, s.(pyreplSession).Session)
	}
	return pyrepl.LetExit(sessions)
}

// A pyreplSession is a [pyrepl.Session] whose branches are Pythons, too.
type pyreplSession struct{ *pyrepl.Session }

func (s pyreplSession) Branch(ctx context.Context, name string, cfg pyrepl.Config) (Python, Shared, error) {
	return asPython(s.Session.Branch(ctx, name, cfg))
}

func (s pyreplSession) BranchAfter(ctx context.Context, job, name string, cfg pyrepl.Config) (Python, Shared, error) {
	return asPython(s.Session.BranchAfter(ctx, job, name, cfg))
}

func asPython(s *pyrepl.Session, shared Shared, err error) (Python, Shared, error) {
	if err != nil {
		return nil, nil, err
	}
	return pyreplSession{s}, shared, nil
}
