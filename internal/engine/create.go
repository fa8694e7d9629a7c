//go:build unix

package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"asyncrepl/internal/reply/overview"
	"asyncrepl/pkgmgr"
	"asyncrepl/pyrepl"
)

// A SessionSpec describes a session. An empty field has the value that it has in a session made on
// first use.
type SessionSpec struct {
	Name     string
	Dir      string // an existing directory, where its Python starts; empty: the scope's workspace
	Python   string // the path of an interpreter, its name on the PATH, or a version: 3.12, 3.12.1
	Venv     string // the directory of an environment, or OwnVenv; relative to the workspace
	Packages string // arguments of an installer that runs before the first job; empty: none runs
	MemoryMB int    // each process of the session is limited to so many MiB; 0: the default

	// Env is added to the scope's environment. Python and the processes that it starts have it.
	Env map[string]string
}

// OwnVenv as the Venv of a session asks for a new environment in the workspace, which only this
// session has.
const OwnVenv = "own"

// venv returns the path of the session's environment, or "" if it has the workspace's.
func (spec SessionSpec) venv() string {
	if spec.Venv == OwnVenv {
		return filepath.Join(".venvs", spec.Name)
	}
	return spec.Venv
}

// Create makes a session. If spec names packages, install is not nil: the front end starts it as a
// job that Holds, and it has the first place in the session's queue. The error can be a
// [*SessionExistsError] or a [*TooManySessionsError]. Create can take long, because it can have to
// start an interpreter to learn its version.
func (e *Engine) Create(ctx context.Context, sc Scope, spec SessionSpec) (_ overview.Session, install *Install, err error) {
	if err := e.checkSpec(spec); err != nil {
		return overview.Session{}, nil, e.described(err)
	}
	packages, err := sc.base.packages.Other(ctx, pkgmgr.Choice{
		Python: pkgmgr.Setting{Name: "python", Value: spec.Python}, Venv: pkgmgr.Setting{Name: "venv", Value: spec.venv()},
	})
	if err != nil {
		return overview.Session{}, nil, err
	}
	if spec.Packages != "" {
		run, err := packages.Install(spec.Packages)
		if err != nil {
			return overview.Session{}, nil, err
		}
		install = &Install{run, siteOf(packages)}
	}
	s, err := e.makeNamed(sc, spec, packages, install)
	if err != nil {
		return overview.Session{}, nil, e.described(err)
	}
	return e.statusOf(s), install, nil
}

// makeNamed makes a session with its settings, and lets install, unless it is nil, take the first
// place in its queue.
func (e *Engine) makeNamed(sc Scope, spec SessionSpec, packages *pkgmgr.Manager, install *Install) (session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.canMake(spec.Name); err != nil { // again: the lock was free meanwhile
		return session{}, err
	}
	s := e.make(sc, spec, packages)
	s.named = true
	if install != nil {
		install.Run = s.Hold(install.Run)
		s.awaits++
	}
	return *s, nil
}

// checkSpec returns why a session can't be made whatever Python it has, or nil.
func (e *Engine) checkSpec(spec SessionSpec) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.canMake(spec.Name); err != nil {
		return err
	}
	if spec.MemoryMB == 0 {
		return nil
	}
	most, by := MostMemoryMB, ""
	if e.config.MemoryMB > 0 {
		most, by = e.config.MemoryMB, " (REPL_MEMORY_MB)"
	}
	if spec.MemoryMB < LeastMemoryMB || spec.MemoryMB > most {
		return fmt.Errorf("the limit memory_mb must be from %d to %d%s", LeastMemoryMB, most, by)
	}
	if err := canLimitMemory(); err != nil {
		return fmt.Errorf("limiting memory: %w; leave out memory_mb", err)
	}
	return nil
}

// canMake returns why there can be no new session of a name, or nil. The caller holds mu. Once the
// caller has released mu, it passes the error to described.
func (e *Engine) canMake(name string) error {
	if s := e.sessions[name]; s != nil {
		return &SessionExistsError{of: *s}
	}
	if len(e.sessions) >= e.config.MaxSessions && !e.makeRoom() {
		return e.tooMany()
	}
	return nil
}

// make adds a session that has not started anything yet to the table. The caller holds mu.
func (e *Engine) make(sc Scope, spec SessionSpec, packages *pkgmgr.Manager) *session {
	return e.add(sc, spec, packages, e.config.Pythons.New(spec.Name, e.configOf(sc, spec, packages)))
}

// add adds a session to the table. The caller holds mu.
func (e *Engine) add(sc Scope, spec SessionSpec, packages *pkgmgr.Manager, of Python) *session {
	now := time.Now()
	of.SetCheckpoints(&e.kept)
	s := &session{Python: of, scope: sc, spec: spec, packages: packages, made: now, opened: now}
	if old := e.expired[spec.Name]; old != nil {
		if old.loss != nil {
			s.SetNote(old.loss.String())
		}
		delete(e.expired, spec.Name)
	}
	e.sessions[spec.Name] = s
	e.expireAfter(e.config.SessionTTL)
	return s
}

// configOf returns how the workers of a session start.
func (e *Engine) configOf(sc Scope, spec SessionSpec, packages *pkgmgr.Manager) pyrepl.Config {
	c := pyrepl.Config{
		Owner: e.owner, Python: packages.Interpreter, Env: func() []string { return sessionEnv(sc, spec, packages) },
		PythonSetting: e.nameOf("REPL_PYTHON"),
		Dir:           sc.Workspace, DirSetting: e.nameOf("REPL_WORKDIR"),
		Memory: e.config.MemoryMB, MemorySetting: "REPL_MEMORY_MB",
		OnReset: func() { e.records.Reset(spec.Name) },
	}
	if spec.Python != "" {
		c.PythonSetting = "the python of a new session"
	} else if spec.Venv != "" {
		c.PythonSetting = "the venv of a new session"
	}
	if spec.Dir != "" {
		c.Dir, c.DirSetting = spec.Dir, "the cwd of a new session"
	}
	if spec.MemoryMB != 0 {
		c.Memory, c.MemorySetting = spec.MemoryMB, "the memory_mb of a new session"
	}
	return c
}

// keptVenv returns the directory of the environment that was made for a session alone, or "". The
// directory stays when the session ends, so the reply to a delete names it.
func keptVenv(sc Scope, spec SessionSpec) string {
	if spec.Venv != OwnVenv {
		return ""
	}
	dir := filepath.Join(sc.Workspace, spec.venv())
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}
