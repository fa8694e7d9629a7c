//go:build unix

package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"asyncrepl/internal/process/cgroup"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/jobs"
	"asyncrepl/pkgmgr"
	"asyncrepl/pyrepl"
)

// A Session is a named Python namespace that outlives its jobs. An Engine returns sessions of
// package pyrepl; tests of front ends have other implementations.
type Session interface {
	// Exec returns a runner of code.
	Exec(code string) jobs.Runner
	// ExecFile returns a runner of a file. A relative path starts in the session's directory.
	ExecFile(f File) jobs.Runner
	// Ask returns a runner of a request about code. Its job withdraws if it still waits for its
	// turn after patience.
	Ask(q Request, code string, patience time.Duration) jobs.Runner
	// Variables lists the names of the namespace that match a glob pattern; an empty pattern
	// matches all. If the session is busy, Variables returns the last known names at once.
	Variables(ctx context.Context, pattern string) (Variables, error)
	// History returns the code that the session ran.
	History() History
	// WithCheckpoint makes a runner of Exec or ExecFile leave a checkpoint, which the job's receipt
	// reports.
	WithCheckpoint(run jobs.Runner) jobs.Runner
	// RestartFrom is Restart, but the next interpreter continues from a checkpoint: the one after
	// the job that checkpoint names, or the newest if checkpoint is "latest". It returns that job.
	// After an error nothing has ended.
	RestartFrom(ctx context.Context, by jobs.By, reason, checkpoint string) (job string, wait func(ctx context.Context) (End, error), err error)
	// Restorable returns the job of the newest checkpoint if the variables were lost in a job and no
	// interpreter was started since. Otherwise it returns "".
	Restorable(job string) (checkpoint string)
	// Restart ends the interpreter, its jobs and all processes that they started; the receipts of
	// the jobs give the reason. When Restart returns, new jobs run in the next interpreter. wait
	// waits until the old one has ended. Its error means that ctx was done first, or that the
	// remaining processes could not be checked.
	Restart(by jobs.By, reason string) (wait func(ctx context.Context) (End, error), err error)
}

// Aliases, so that front ends need not import pyrepl.
type (
	File      = pyrepl.File      // a file to run
	Request   = pyrepl.Request   // a request about the namespace
	Variables = pyrepl.Variables // a list of names of the namespace
	Variable  = pyrepl.Variable
	History   = pyrepl.History // the code that a session ran
	Entry     = pyrepl.Entry   // one piece of code that it ran
	Work      = pyrepl.Work    // code or a file
	End       = pyrepl.End     // how a restart ended the interpreter
	Loss      = pyrepl.Loss    // the death of an interpreter between jobs
)

// The bounds of the limit of a session's memory, in MiB. A Python that does nothing takes a third
// of the least.
const (
	LeastMemoryMB = 64
	MostMemoryMB  = 16 << 20
)

// A session is an entry of the engine's table.
type session struct {
	Python
	spec     SessionSpec
	packages *pkgmgr.Manager // installs into the session's environment of Python
	made     time.Time
	parent   string // the session that it was branched from; empty: it is no branch
	rerun    string // the job whose state the session reached by running code again; or empty

	// scope is the scope of the client that made the session or the session's first ancestor.
	// Python starts in that environment even if another client uses the session.
	scope Scope

	// opened is when a job was last about to use the session, and awaits is how many jobs have ever
	// taken a place in its queue once that job has. Until then the session is not idle: otherwise
	// it could be ended between the call of Open and the start of the job.
	opened time.Time
	awaits int

	// kept reports whether a client wants the session to outlive its goodbye, see keep.go.
	kept bool

	// named reports whether a client made the session with its settings. makeRoom does not drop
	// such a session, and the engine does not rest, because its settings would be lost.
	named bool
}

// openTime is how long a session that was opened for a job counts as in use before the job is
// queued. The start of the job can have been refused, so the wait must end.
const openTime = 10 * time.Second

// idleSince returns since when no job has used the session. If a job uses it now, or is about to,
// idleSince returns the current time.
func (s *session) idleSince(st pyrepl.State) time.Time {
	if !st.Idle() || st.Taken < s.awaits && time.Since(s.opened) < openTime {
		return time.Now()
	}
	if st.Used.After(s.opened) {
		return st.Used
	}
	return s.opened
}

// Session returns the named session. If there is none, the error is a [*NoSessionError].
func (e *Engine) Session(name string) (Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[name]
	if s == nil {
		return nil, e.noSession(name)
	}
	return s.Python, nil
}

// Open returns the named session for a job, and reports whether it had to make it. A session starts
// no process before its first job. If no more are allowed, the error is a [*TooManySessionsError].
func (e *Engine) Open(sc Scope, name string) (_ Session, created bool, err error) {
	s, created, err := e.open(sc, name, true)
	if err != nil {
		return nil, false, err
	}
	return s.Python, created, nil
}

// open returns the named session and reports whether it had to make it. job reports whether a job
// will take a place in its queue.
func (e *Engine) open(sc Scope, name string, job bool) (s *session, created bool, err error) {
	defer func() { err = e.described(err) }()
	e.mu.Lock()
	defer e.mu.Unlock()
	s = e.sessions[name]
	if created = s == nil; created {
		spec, packages, named := SessionSpec{Name: name}, sc.base.packages, false
		if old := e.expired[name]; old != nil {
			sc, spec, packages, named = old.scope, old.spec, old.packages, old.named
		}
		if err = e.canMake(name); err != nil {
			return nil, false, err
		}
		s = e.make(sc, spec, packages)
		s.named = named
	}
	s.opened = time.Now()
	if job {
		s.awaits = max(s.awaits, s.State().Taken) + 1
	}
	return s, created, nil
}

// environmentOf returns the environment of Python that a session has, or would have if it were
// opened.
func (e *Engine) environmentOf(sc Scope, name string) *pkgmgr.Manager {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.sessions[name]; s != nil {
		return s.packages
	}
	if old := e.expired[name]; old != nil {
		return old.packages
	}
	return sc.base.packages
}

// Delete ends a session for good, as [Session.Restart] ends its interpreter. When Delete returns,
// the name is free. wait works as the wait of Restart does. After wait, kept returns the directory
// of the environment that was made for the session alone, which stays, or "" if there is none. If
// there is no such session, the error is a [*NoSessionError].
func (e *Engine) Delete(name string, by jobs.By, reason string) (wait func(ctx context.Context) (End, error), kept func() string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[name]
	if s == nil {
		return nil, nil, e.noSession(name)
	}
	delete(e.sessions, name)
	wait, err = s.Python.Delete(by, reason)
	return wait, func() string { return keptVenv(s.scope, s.spec) }, err
}

// Sessions returns the state of the sessions, in the order of their names, and how many are allowed
// at once.
func (e *Engine) Sessions() (list []overview.Session, limit int) {
	for _, s := range e.list() {
		list = append(list, e.statusOf(s))
	}
	return list, e.config.MaxSessions
}

// statusOf returns the state of a session. It scans /proc, so its caller must not hold mu.
func (e *Engine) statusOf(s session) overview.Session {
	st, u, now := s.State(), s.Usage(), time.Now()
	limit := cmp.Or(s.spec.MemoryMB, e.config.MemoryMB)
	return overview.Session{
		Name: s.Name(), Made: s.named, Parent: s.parent, Rerun: s.rerun, PID: st.PID, Stopped: s.Stopped(), Job: st.Job, Doing: st.Doing, Queued: st.Queued, Variables: st.Variables,
		Threads: u.Threads, Processes: u.Processes, Memory: u.Memory, CPU: u.CPU,
		Jobs: st.Jobs, Ran: st.Ran, Age: now.Sub(s.made), Idle: max(0, now.Sub(s.idleSince(st))),
		Python: interpreter(s.packages), Dir: cmp.Or(s.spec.Dir, s.scope.Workspace),
		MemoryMB: limit, Together: limit > 0 && cgroup.Available() == nil,
	}
}

// Losses returns the deaths of idle interpreters. A death is listed until the next job of its
// session, whose receipt says the same.
func (e *Engine) Losses() (losses []*Loss) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		if loss := s.Lost(); loss != nil {
			losses = append(losses, loss)
		}
	}
	for _, x := range e.expired {
		if x.loss != nil {
			losses = append(losses, x.loss)
		}
	}
	slices.SortFunc(losses, func(a, b *Loss) int { return cmp.Compare(a.Session, b.Session) })
	return losses
}

// list returns the sessions, in the order of their names.
func (e *Engine) list() (list []session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b session) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

// makeRoom drops the sessions that have no state or settings to lose, and reports whether there
// were any. The caller holds mu.
func (e *Engine) makeRoom() bool {
	before := len(e.sessions)
	maps.DeleteFunc(e.sessions, func(_ string, s *session) bool { return !s.named && !s.Live() })
	return len(e.sessions) < before
}

// all returns the sessions, in no order.
func (e *Engine) all() (list []Python) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		list = append(list, s.Python)
	}
	return list
}
