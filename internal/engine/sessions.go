//go:build unix

package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"asyncrepl/internal/report"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// A Session is a named Python namespace that outlives its jobs. An Engine returns sessions of
// package pyrepl; tests of front ends have other implementations.
type Session interface {
	// Exec returns a runner of code.
	Exec(code string) jobs.Runner
	// ExecFile returns a runner of a file. A relative path starts in the session's directory.
	ExecFile(f File) jobs.Runner
	// Ask returns a runner of a request about code. Its job withdraws if its turn has not come after
	// patience.
	Ask(q Request, code string, patience time.Duration) jobs.Runner
	// Variables lists the names of the namespace that match a glob pattern; an empty one matches all.
	// For a busy session it returns at once with the last known ones.
	Variables(ctx context.Context, pattern string) (Variables, error)
	// History returns what the session ran.
	History() History
	// Restart ends the interpreter, its jobs and all processes that they started; the receipts of the
	// jobs give the reason. When Restart returns, new jobs run in the next interpreter. wait waits
	// until the old one has ended. Its error means that ctx was done first, or that the remaining
	// processes could not be checked.
	Restart(by jobs.By, reason string) (wait func(ctx context.Context) (End, error), err error)
}

// The types of a file to run, of a request about a session's namespace, of a list of that, of what the session ran, of
// what became of its interpreter at a restart, and of the death of its interpreter between jobs.
type (
	File      = pyrepl.File
	Request   = pyrepl.Request
	Variables = pyrepl.Variables
	Variable  = pyrepl.Variable
	History   = pyrepl.History
	Entry     = pyrepl.Entry
	End       = pyrepl.End
	Loss      = pyrepl.Loss
)

// The bounds of the limit of a session's memory, in MB. A Python that does nothing takes a third of
// the least.
const (
	LeastMemoryMB = 64
	MostMemoryMB  = 16 << 20
)

// A SessionSpec describes a session.
type SessionSpec struct {
	Name string
	Dir  string            // an existing directory, where its Python starts; empty: the scope's workspace
	Env  map[string]string // added to the scope's, for its Python and what that starts
}

// A sessionKey distinguishes the sessions of different tenants.
type sessionKey struct{ tenant, name string }

// A session is an entry of the engine's table.
type session struct {
	*pyrepl.Session
	spec   SessionSpec
	made   time.Time
	opened time.Time // when a job was last about to use it
	awaits int       // how many jobs must have taken a place in its queue then
	named  bool      // a client made it with its settings, so it makes no room for others
	parent string    // the session that it is a branch of; empty: none
}

// openTime is how long a session that was opened for a job waits for that to be queued. The start
// of the job can have been refused.
const openTime = 10 * time.Second

// idleSince returns since when no job has used the session. If one does now, or is about to, that is
// now.
func (s *session) idleSince(st pyrepl.State) time.Time {
	if !st.Idle() || st.Taken < s.awaits && time.Since(s.opened) < openTime {
		return time.Now()
	}
	if st.Used.After(s.opened) {
		return st.Used
	}
	return s.opened
}

// Session returns the named session of the scope's tenant. If there is none, the error is a
// [*NoSessionError].
func (e *Engine) Session(sc Scope, name string) (Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[sessionKey{sc.Tenant, name}]
	if s == nil {
		return nil, e.noSession(sc, name)
	}
	return s.Session, nil
}

// Open returns the named session of the scope's tenant for a job, and reports whether it had to
// make it. A session starts no process before its first job. If no more are allowed, the error is a
// [*TooManySessionsError].
func (e *Engine) Open(sc Scope, name string) (_ Session, made bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := sessionKey{sc.Tenant, name}
	s := e.sessions[key]
	if made = s == nil; made {
		spec := SessionSpec{Name: name}
		old := e.expired[key]
		if old != nil {
			spec = old.spec
		}
		if err = e.canMake(sc, name); err != nil {
			return nil, false, err
		}
		s = e.make(sc, spec)
		s.named = old != nil && old.named
	}
	s.opened, s.awaits = time.Now(), max(s.awaits, s.State().Taken)+1
	return s.Session, made, nil
}

// Create makes a session. The error can be a [*SessionExistsError] or a [*TooManySessionsError].
func (e *Engine) Create(sc Scope, spec SessionSpec) (report.SessionStatus, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.canMake(sc, spec.Name); err != nil {
		return report.SessionStatus{}, err
	}
	s := e.make(sc, spec)
	s.named = true
	return e.statusOf(sc, *s), nil
}

// canMake returns why there can be no new session of a name, or nil. The caller holds mu.
func (e *Engine) canMake(sc Scope, name string) error {
	if s := e.sessions[sessionKey{sc.Tenant, name}]; s != nil {
		return &SessionExistsError{e.statusOf(sc, *s)}
	}
	if len(e.sessions) >= e.config.MaxSessions && !e.makeRoom() {
		return e.tooMany(sc)
	}
	return nil
}

// make adds a session that has not started anything yet to the table. The caller holds mu.
func (e *Engine) make(sc Scope, spec SessionSpec) *session {
	return e.add(sc, spec, pyrepl.NewSession(spec.Name, e.configOf(sc, spec)))
}

// configOf returns how the workers of a session start.
func (e *Engine) configOf(sc Scope, spec SessionSpec) pyrepl.Config {
	dir, setting := sc.Workspace, "REPL_WORKDIR"
	if spec.Dir != "" {
		dir, setting = spec.Dir, "the cwd of a new session"
	}
	return pyrepl.Config{
		PythonSetting: "REPL_PYTHON", DirSetting: setting, MemorySetting: "REPL_MEMORY_MB", Memory: e.config.MemoryMB,
		Owner: e.owner, Python: e.packages.Interpreter, Dir: dir,
		Env: func() []string { return e.withPrograms(e.sessionEnv(sc.Env, spec.Env)) },
	}
}

// add adds a session to the table. The caller holds mu.
func (e *Engine) add(sc Scope, spec SessionSpec, of *pyrepl.Session) *session {
	now := time.Now()
	key := sessionKey{sc.Tenant, spec.Name}
	s := &session{Session: of, spec: spec, made: now, opened: now}
	if old := e.expired[key]; old != nil {
		if old.loss != nil {
			s.SetNote(old.loss.String())
		}
		delete(e.expired, key)
	}
	e.sessions[key] = s
	e.expireAfter(e.config.SessionTTL)
	return s
}

// Delete ends a session for good, as [Session.Restart] ends its interpreter. It returns once the
// name is free; wait waits as that of Restart does. If there is no such session, the error is a
// [*NoSessionError].
func (e *Engine) Delete(sc Scope, name string, by jobs.By, reason string) (wait func(ctx context.Context) (End, error), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := sessionKey{sc.Tenant, name}
	s := e.sessions[key]
	if s == nil {
		return nil, e.noSession(sc, name)
	}
	delete(e.sessions, key)
	return s.Session.Delete(by, reason)
}

// Sessions returns the state of the sessions of the scope's tenant, by name, and how many are
// allowed at once, of all tenants.
func (e *Engine) Sessions(sc Scope) (list []report.SessionStatus, limit int) {
	for _, s := range e.sessionsOf(sc) {
		list = append(list, e.statusOf(sc, s))
	}
	return list, e.config.MaxSessions
}

// statusOf returns the state of a session.
func (e *Engine) statusOf(sc Scope, s session) report.SessionStatus {
	st, u, now := s.State(), s.Usage(), time.Now()
	return report.SessionStatus{
		Name: s.Name(), Parent: s.parent, PID: st.PID, Job: st.Job, Queued: st.Queued, Variables: st.Variables,
		Threads: u.Threads, Processes: u.Processes, Memory: u.Memory, CPU: u.CPU,
		Jobs: st.Jobs, Ran: st.Ran, Age: now.Sub(s.made), Idle: max(0, now.Sub(s.idleSince(st))),
		Python: e.interpreter(), Dir: cmp.Or(s.spec.Dir, sc.Workspace),
	}
}

// Losses returns the deaths of idle interpreters of the scope's tenant. A death is listed until the
// next job of its session, whose receipt says the same.
func (e *Engine) Losses(sc Scope) (losses []*Loss) {
	for _, s := range e.sessionsOf(sc) {
		if loss := s.Lost(); loss != nil {
			losses = append(losses, loss)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(losses, e.expiredLosses(sc.Tenant)...)
}

// sessionsOf returns the sessions of the scope's tenant, in the order of their names.
func (e *Engine) sessionsOf(sc Scope) (list []session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, s := range e.sessions {
		if key.tenant == sc.Tenant {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b session) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

// makeRoom drops the sessions that have no state or settings to lose, and reports whether there
// were any. The caller holds mu.
func (e *Engine) makeRoom() bool {
	before := len(e.sessions)
	maps.DeleteFunc(e.sessions, func(_ sessionKey, s *session) bool { return !s.named && !s.Live() })
	return len(e.sessions) < before
}

// all returns the sessions of all tenants.
func (e *Engine) all() (list []*pyrepl.Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		list = append(list, s.Session)
	}
	return list
}

// A NoSessionError says that there is no session of a name.
type NoSessionError struct {
	Name  string
	Names []string // of the sessions of the same tenant, in order
	Loss  *Loss    // the session was ended because it was idle; nil: it was not, or lost nothing
}

func (e *NoSessionError) Error() string { return "there is no session " + e.Name }

// noSession returns the error for a name. The caller holds mu.
func (e *Engine) noSession(sc Scope, name string) error {
	err := &NoSessionError{Name: name}
	for key := range e.sessions {
		if key.tenant == sc.Tenant {
			err.Names = append(err.Names, key.name)
		}
	}
	slices.Sort(err.Names)
	if old := e.expired[sessionKey{sc.Tenant, name}]; old != nil {
		err.Loss = old.loss
	}
	return err
}

// A SessionExistsError says that a session can't be made because there is one of that name.
type SessionExistsError struct{ Session report.SessionStatus }

func (e *SessionExistsError) Error() string {
	return fmt.Sprintf("session %s exists", e.Session.Name)
}

// A TooManySessionsError says that no more sessions are allowed.
type TooManySessionsError struct {
	Open int
	Idle report.SessionStatus // the one of the same tenant that has been idle longest; without a name: all are busy
}

func (e *TooManySessionsError) Error() string {
	return fmt.Sprintf("%d sessions are open, the most allowed (REPL_MAX_SESSIONS)", e.Open)
}

// tooMany returns the error for a session that can't be made. The caller holds mu.
func (e *Engine) tooMany(sc Scope) error {
	err := &TooManySessionsError{Open: len(e.sessions)}
	var idle *session
	for key, s := range e.sessions {
		if st := s.State(); key.tenant == sc.Tenant && st.Idle() && (idle == nil || s.idleSince(st).Before(idle.idleSince(idle.State()))) {
			idle = s
		}
	}
	if idle != nil {
		err.Idle = e.statusOf(sc, *idle)
	}
	return err
}
