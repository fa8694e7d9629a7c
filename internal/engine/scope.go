//go:build unix

package engine

import (
	"cmp"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"asyncrepl/pkgmgr"
)

// DefaultGrace is how long an execute or send call waits for its job to end if neither the scope
// nor the call sets a time.
const DefaultGrace = 2 * time.Second

// defaultSession is the Python session of a scope that names none.
const defaultSession = "default"

// A Client is what a client brings to the engine that serves it.
type Client struct {
	// Env is the complete environment that its jobs start from, as KEY=value. Its PATH is searched
	// for python3 and uv, and VIRTUAL_ENV or CONDA_PREFIX names the active environment of Python.
	Env       []string
	Workspace string        // an absolute path; empty: the engine's workspace
	Grace     time.Duration // becomes Scope.Grace
	Timeout   time.Duration // becomes Scope.Timeout
	Log       *slog.Logger  // becomes Scope.Log, at the client's level; nil: the engine's log
}

// A Scope says where and how the jobs of one connection run, unless a call says otherwise. The
// methods of an Engine take only scopes that its method Scope has returned.
type Scope struct {
	Workspace string        // an absolute path; relative directories start there
	Env       []string      // KEY=value, the environment that jobs start from
	Session   string        // the Python session of calls that name none; empty: defaultSession
	Grace     time.Duration // how long execute, send and cancel calls wait; 0: DefaultGrace
	Timeout   time.Duration // limits a job if its call sets no limit; 0: jobs are not limited
	Log       *slog.Logger  // receives the events of this connection alone; nil: nothing is logged

	base *base
}

// GraceTime returns the scope's Grace or the default.
func (s Scope) GraceTime() time.Duration { return cmp.Or(s.Grace, DefaultGrace) }

// SessionName returns the session for a call that gives name: name itself or, if it is empty, the
// scope's session or the default.
func (s Scope) SessionName(name string) string { return cmp.Or(name, s.Session, defaultSession) }

// Home returns the home directory, or "" if the environment names none by an absolute path.
func (s Scope) Home() string {
	if home := variables(s.Env)["HOME"]; filepath.IsAbs(home) {
		return home
	}
	return ""
}

// A base is what the scopes of all clients with the same environment and workspace share. The
// engine keeps it until it closes, because sessions outlive the connections that made them.
type base struct {
	brought   []string // Client.Env
	given     []string // brought; Engine.deactivates removes the active environment of Python
	workspace string
	env       []string        // Scope.Env: given with the variables that jobEnv sets
	packages  *pkgmgr.Manager // shared by the bases that have the same environment of Python
}

// Scope returns the scope of a client.
func (e *Engine) Scope(c Client) Scope {
	b := e.baseOf(c)
	return Scope{Workspace: b.workspace, Env: b.env, Grace: c.Grace, Timeout: c.Timeout, Log: cmp.Or(c.Log, e.config.Log), base: b}
}

// baseOf returns the base of a client, and makes it if there is none.
func (e *Engine) baseOf(c Client) *base {
	workspace := cmp.Or(c.Workspace, e.config.Workspace)
	e.basesMu.Lock()
	defer e.basesMu.Unlock()
	for _, b := range e.bases {
		if b.workspace == workspace && slices.Equal(b.brought, c.Env) {
			return b
		}
	}
	b := &base{brought: slices.Clone(c.Env), workspace: workspace}
	b.given = b.brought
	if e.deactivates {
		b.given = deactivated(b.given)
	}
	if b.packages = e.packagesFor(workspace, variables(b.given)); b.packages == nil {
		b.packages = e.newPackages(workspace, b.given)
	}
	b.env = jobEnv(b.given, b.packages.Bin(), b.packages.IsVirtual())
	e.bases = append(e.bases, b)
	return b
}

// packagesFor returns the manager of another client whose environment of Python is the same, or
// nil. Two managers of one environment could install into it at once, or take different
// interpreters for it. The first client's PATH counts. The caller holds basesMu.
func (e *Engine) packagesFor(workspace string, env map[string]string) *pkgmgr.Manager {
	for _, b := range e.bases {
		theirs := variables(b.given)
		if b.workspace == workspace && theirs["VIRTUAL_ENV"] == env["VIRTUAL_ENV"] && theirs["CONDA_PREFIX"] == env["CONDA_PREFIX"] {
			return b.packages
		}
	}
	return nil
}

// newPackages makes the manager of an environment of Python.
func (e *Engine) newPackages(workspace string, given []string) *pkgmgr.Manager {
	env := variables(given)
	return pkgmgr.New(pkgmgr.Config{
		Workspace:   workspace,
		Python:      pkgmgr.Setting{Name: e.nameOf("REPL_PYTHON"), Value: e.config.Python},
		VenvDir:     pkgmgr.Setting{Name: e.nameOf("REPL_VENV_DIR"), Value: e.config.VenvDir},
		VirtualEnv:  pkgmgr.Setting{Name: "VIRTUAL_ENV", Value: env["VIRTUAL_ENV"]},
		CondaPrefix: pkgmgr.Setting{Name: "CONDA_PREFIX", Value: env["CONDA_PREFIX"]},
		Path:        filepath.SplitList(env["PATH"]), Env: given,
		Owner: e.owner, Command: e.onTerminal, Installed: e.installed, Pip: e.config.Pip, StateDir: e.records.Dir, Log: e.config.Log,
	})
}

// nameOf returns how errors name a setting. At a place, an environment is in the workspace.
func (e *Engine) nameOf(setting string) string {
	switch {
	case !e.config.Placed:
		return setting
	case setting == "REPL_PYTHON":
		return "python in the file of places"
	}
	return "workspace in the file of places"
}
