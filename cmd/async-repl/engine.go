//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/mcpserver"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/jobs"
	"asyncrepl/pkgmgr"
	"asyncrepl/pyrepl"
	"asyncrepl/shell"
)

// An engine is the registry, the sessions and the packages of one server. All
// its connections share it. It makes the runners that the tools ask for.
type engine struct {
	set     settings
	log     *slog.Logger
	owner   *process.Owner
	shell   string
	env     []string // KEY=value; what jobs start from
	state   string   // XDG_STATE_HOME
	started time.Time
	pkgs    *pkgmgr.Manager
	shared  *mcpserver.Engine

	// Guarded by mu.
	mu       sync.Mutex
	sessions map[sessionKey]*pyrepl.Session
}

// A sessionKey tells the sessions of different tenants apart.
type sessionKey struct{ tenant, name string }

// localTenant is the tenant of the one who started the server.
const localTenant = "local"

// newEngine builds the parts. It starts no process and touches no disk: a
// client that only lists the tools pays for neither.
func newEngine(set settings, environ []string, log *slog.Logger) (*engine, error) {
	sh, err := findShell(set.shell)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	owner, err := process.NewOwner(process.Config{Guard: []string{self, guardCommand}, GuardEnv: environ, Log: log})
	if err != nil {
		return nil, err
	}
	env := variables(environ)
	e := &engine{
		set: set, log: log, owner: owner, shell: sh, state: env["XDG_STATE_HOME"], started: time.Now(),
		sessions: make(map[sessionKey]*pyrepl.Session),
	}
	e.pkgs = pkgmgr.New(pkgmgr.Config{
		Workspace: set.workdir,
		Python:    pkgmgr.Setting{Name: "REPL_PYTHON", Value: set.python}, VenvDir: pkgmgr.Setting{Name: "REPL_VENV_DIR", Value: set.venvDir},
		VirtualEnv:  pkgmgr.Setting{Name: "VIRTUAL_ENV", Value: env["VIRTUAL_ENV"]},
		CondaPrefix: pkgmgr.Setting{Name: "CONDA_PREFIX", Value: env["CONDA_PREFIX"]},
		Path:        filepath.SplitList(env["PATH"]), Env: environ,
		Owner: owner,
		Command: func(argv, env []string, dir string) jobs.Runner {
			return &shell.Command{Owner: owner, Argv: argv, Env: env, Dir: dir, TTY: true}
		},
		Installed: e.installed, Log: log,
	})
	e.env = jobEnv(environ, e.pkgs.Bin())
	store := output.NewStore(output.Config{Cap: set.maxOutput, Disk: set.maxState, Dir: e.stateDir})
	e.shared = &mcpserver.Engine{
		Jobs:    jobs.NewRegistry(jobs.Config{Logs: store, MaxRunning: set.maxJobs, Log: log, Bug: func(msg string) { log.Error("internal error", "what", msg) }}),
		Runners: e, Grace: set.grace, Timeout: set.timeout, Version: version(), Log: log,
		Status: e.status,
	}
	return e, nil
}

// scope is what the one client of standard input and output may see.
func (e *engine) scope() mcpserver.Scope {
	return mcpserver.Scope{Tenant: localTenant, Workspace: e.set.workdir, Env: e.env}
}

// stateDir returns the directory for long output, made on first use.
func (e *engine) stateDir() (string, error) {
	dir, err := e.statePath()
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// statePath is where the directory for long output is or would be.
func (e *engine) statePath() (string, error) {
	if e.set.stateDir != "" {
		return e.set.stateDir, nil
	}
	base := e.state
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding a place for long output: %v: set REPL_STATE_DIR", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "async-repl"), nil
}

// findShell returns the shell that runs commands. SHELL is a person's choice of
// a shell to type at, and is not consulted.
func findShell(chosen string) (string, error) {
	names := []string{"bash", "/bin/bash", "sh", "/bin/sh"}
	if chosen != "" {
		names = []string{chosen}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	if chosen != "" {
		return "", fmt.Errorf("REPL_SHELL=%q can't be used; allowed: the path or name of a program that runs a command line given with -c", chosen)
	}
	return "", errors.New("there is neither bash nor sh, on PATH or in /bin: set REPL_SHELL to a shell")
}

// jobEnv is the environment that jobs start from: the server's own, with a
// terminal that programs know, pagers that do not wait for a key, a UTF-8
// locale where none is set, and the Python environment's programs first. What
// would forbid a program to ask (CI, PIP_NO_INPUT) is not set: questions can be
// answered here.
func jobEnv(environ []string, bin string) []string {
	env := variables(environ)
	set := map[string]string{
		"TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat", "GH_PAGER": "cat",
	}
	if bin != "" {
		set["PATH"] = bin + string(os.PathListSeparator) + env["PATH"]
	}
	if !utf8Locale(env) {
		set["LC_CTYPE"] = "C.UTF-8"
	}
	out := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, ours := set[name]
		return ours
	})
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return out
}

// utf8Locale reports whether the locale's characters are UTF-8.
func utf8Locale(env map[string]string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(env[name]); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

func variables(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			m[name] = value
		}
	}
	return m
}

// Python returns the named session of the scope's tenant.
func (e *engine) Python(sc mcpserver.Scope, name string) (mcpserver.PythonSession, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := sessionKey{sc.Tenant, name}
	s := e.sessions[key]
	if s == nil {
		if len(e.sessions) >= e.set.maxSessions && !e.makeRoom() {
			return nil, fmt.Errorf("%d sessions are open, the most allowed (REPL_MAX_SESSIONS): use one of them, or restart one that is done with", len(e.sessions))
		}
		s = pyrepl.NewSession(name, pyrepl.Config{
			Owner: e.owner, Python: e.pkgs.Interpreter, Dir: sc.Workspace, Log: e.log,
			Env: func() []string { return sc.Env },
		})
		e.sessions[key] = s
	}
	return session{s}, nil
}

// makeRoom forgets the sessions that hold nothing, and reports whether there
// were any. The caller holds mu.
func (e *engine) makeRoom() bool {
	before := len(e.sessions)
	maps.DeleteFunc(e.sessions, func(_ sessionKey, s *pyrepl.Session) bool { return !s.Live() })
	return len(e.sessions) < before
}

// Shell returns the runner of a command line.
func (e *engine) Shell(sc mcpserver.Scope, req mcpserver.ShellRequest) (jobs.Runner, error) {
	env := slices.Clone(sc.Env)
	for name, value := range req.Env {
		env = append(env, name+"="+value) // the last one counts
	}
	return &shell.Command{Owner: e.owner, Argv: shell.Script(e.shell, req.Command), Dir: req.Dir, Env: env, TTY: req.TTY}, nil
}

// Install returns the runner that installs packages into the environment that
// all sessions share.
func (e *engine) Install(_ mcpserver.Scope, _, packages string) (jobs.Runner, error) {
	return e.pkgs.Install(packages)
}

// installed lets every session find what was just installed, and tells which of
// them go on with what they had imported before.
func (e *engine) installed(ctx context.Context, ch pkgmgr.Changes) (notes []string) {
	owner := map[string]string{} // of a module
	for _, p := range ch.Installed {
		if p.Before != "" {
			for _, name := range p.Modules() {
				owner[name] = p.Name + " " + p.Version
			}
		}
	}
	modules := slices.Sorted(maps.Keys(owner))
	e.mu.Lock()
	sessions := maps.Clone(e.sessions)
	e.mu.Unlock()
	for key, s := range sessions {
		s.Refresh(ch.Paths)
		if len(modules) == 0 {
			continue
		}
		imported, err := s.Imported(ctx, modules)
		if err != nil {
			e.log.Debug("asking a session for its modules", "session", key.name, "err", err)
		}
		told := map[string]bool{}
		for _, name := range imported {
			if pkg := owner[name]; !told[pkg] {
				told[pkg] = true
				notes = append(notes, fmt.Sprintf("session %s has imported %s before; restart_python_worker to use %s there", key.name, name, pkg))
			}
		}
	}
	slices.Sort(notes)
	if ch.Gone != "" {
		notes = slices.Insert(notes, 0, fmt.Sprintf("the environment %s is gone, this is %s: restart_python_worker in sessions that still run in the old one", ch.Gone, ch.Dir))
	}
	return notes
}

func (e *engine) closeSessions() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.sessions {
		s.Close()
	}
}

// session is a Python session as the tools know it.
type session struct{ *pyrepl.Session }

func (s session) Variables(ctx context.Context) (mcpserver.Variables, error) {
	known, err := s.Session.Variables(ctx)
	v := mcpserver.Variables{Total: known.Total, AsOf: known.AsOf, Busy: known.Busy}
	for _, one := range known.Vars {
		v.Vars = append(v.Vars, mcpserver.Variable(one))
	}
	return v, err
}
