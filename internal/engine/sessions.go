//go:build unix

package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"asyncrepl/jobs"
	"asyncrepl/pkgmgr"
	"asyncrepl/pyrepl"
)

// A Session is a named Python namespace that outlives its jobs. An Engine returns sessions of
// package pyrepl; tests of front ends have other implementations.
type Session interface {
	// Exec returns a runner of code.
	Exec(code string) jobs.Runner
	// Variables lists the names of the namespace. For a busy session it returns at once with the
	// last known ones.
	Variables(ctx context.Context) (Variables, error)
	// Restart ends the interpreter, its jobs and all processes that they started; the receipts of the
	// jobs give the reason. When Restart returns, new jobs run in the next interpreter. wait waits
	// until the old one has ended. Its error means that ctx was done first, or that the remaining
	// processes could not be checked.
	Restart(by jobs.By, reason string) (wait func(ctx context.Context) (End, error), err error)
}

// The types of a list of a session's namespace, of what became of its interpreter at a restart, and
// of the death of its interpreter between jobs.
type (
	Variables = pyrepl.Variables
	Variable  = pyrepl.Variable
	End       = pyrepl.End
	Loss      = pyrepl.Loss
)

// The bounds of the limit of a session's memory, in MB. A Python that does nothing takes a third of
// the least.
const (
	LeastMemoryMB = 64
	MostMemoryMB  = 16 << 20
)

// A sessionKey distinguishes the sessions of different tenants.
type sessionKey struct{ tenant, name string }

// Session returns the named session of the scope's tenant, and makes it if it does not exist. A
// session starts no process before its first job.
func (e *Engine) Session(sc Scope, name string) (Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := sessionKey{sc.Tenant, name}
	s := e.sessions[key]
	if s == nil {
		if len(e.sessions) >= e.config.MaxSessions && !e.makeRoom() {
			return nil, fmt.Errorf("%d sessions are open, the most allowed (REPL_MAX_SESSIONS): use one of them, or restart one that is done with", len(e.sessions))
		}
		s = pyrepl.NewSession(name, pyrepl.Config{
			PythonSetting: "REPL_PYTHON", DirSetting: "REPL_WORKDIR", MemorySetting: "REPL_MEMORY_MB", Memory: e.config.MemoryMB,
			Owner: e.owner, Python: e.packages.Interpreter, Dir: sc.Workspace,
			Env: func() []string { return e.withPrograms(sc.Env) },
		})
		e.sessions[key] = s
	}
	return s, nil
}

// Losses returns the deaths of idle interpreters of the scope's tenant. A death is listed until the
// next job of its session, whose receipt says the same.
func (e *Engine) Losses(sc Scope) (losses []*Loss) {
	for _, s := range e.sessionsOf(sc) {
		if loss := s.Lost(); loss != nil {
			losses = append(losses, loss)
		}
	}
	return losses
}

// sessionsOf returns the sessions of the scope's tenant, in the order of their names.
func (e *Engine) sessionsOf(sc Scope) (list []*pyrepl.Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, s := range e.sessions {
		if key.tenant == sc.Tenant {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *pyrepl.Session) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

// makeRoom drops the sessions that have no state to lose, and reports whether there were any. The
// caller holds mu.
func (e *Engine) makeRoom() bool {
	before := len(e.sessions)
	maps.DeleteFunc(e.sessions, func(_ sessionKey, s *pyrepl.Session) bool { return !s.Live() })
	return len(e.sessions) < before
}

// installed returns a note for each package of an install that a session has imported in an earlier
// version. Sessions find new packages themselves.
func (e *Engine) installed(ctx context.Context, _ *pkgmgr.Manager, changes pkgmgr.Changes) (notes []string) {
	replaced := map[string]string{} // by module: its package, with the new version
	for _, p := range changes.Installed {
		if p.Before != "" {
			for _, module := range p.Modules() {
				replaced[module] = p.Name + " " + p.Version
			}
		}
	}
	modules := slices.Sorted(maps.Keys(replaced))
	e.mu.Lock()
	sessions := maps.Clone(e.sessions)
	e.mu.Unlock()
	if len(modules) == 0 {
		sessions = nil
	}
	for key, s := range sessions {
		imported, err := s.Imported(ctx, modules)
		if err != nil {
			e.config.Log.Debug("asking a session for its modules", "session", key.name, "err", err)
		}
		noted := map[string]bool{}
		for _, module := range imported {
			if pkg := replaced[module]; !noted[pkg] {
				noted[pkg] = true
				notes = append(notes, fmt.Sprintf("session %s has imported %s before; restart its Python to use %s there", key.name, module, pkg))
			}
		}
	}
	slices.Sort(notes)
	if changes.Gone != "" {
		gone := fmt.Sprintf("the environment %s is gone, this is %s: restart the Python of sessions that still run in the old one", changes.Gone, changes.Dir)
		notes = slices.Insert(notes, 0, gone)
	}
	return notes
}

// all returns the sessions of all tenants.
func (e *Engine) all() []*pyrepl.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.sessions))
}
