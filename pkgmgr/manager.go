package pkgmgr

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
)

// A Setting is a value that the user can set, and the name of the setting. Errors name the setting
// to change, so Python and VenvDir have names even if they have no value.
type Setting struct{ Name, Value string }

// A Config says where a Manager searches and how it runs commands.
//
// Its JSON is the settings file of the program pip of jobs.
type Config struct {
	Workspace string // an absolute path; relative settings start there

	Python      Setting // an interpreter, used as it is
	VenvDir     Setting // an environment, made if it does not exist
	VirtualEnv  Setting // an environment, used if it exists
	CondaPrefix Setting // likewise

	// Base is the interpreter that VenvDir is made from, by path, name or version; empty: the
	// python3 on PATH.
	Base Setting

	Path []string // directories to search for python3 and uv
	Env  []string `json:"-"` // KEY=value, the full environment of every command

	Owner *process.Owner `json:"-"` // starts the commands that find and make the environment

	// Command returns a runner for the installer. Its output is the job's.
	Command func(argv, env []string, dir string) jobs.Runner `json:"-"`

	// Installed, if set, is called after each install that changed something and before its job is
	// final, with the Manager that installed. It returns notes for the receipt.
	Installed func(context.Context, *Manager, Changes) []string `json:"-"`

	// Pip is the command line of the program pip of jobs, which calls RunPip. The path of the
	// settings file and the arguments of pip follow it. If it is empty, jobs have no such program.
	Pip []string `json:"-"`

	// StateDir makes and returns the directory in which Programs makes its own.
	StateDir func() (string, error) `json:"-"`

	Log *slog.Logger `json:"-"` // nil: nothing is logged
}

// A Manager finds, makes and fills the environment of one workspace. Its methods can be called by
// several goroutines at once.
type Manager struct {
	cfg Config
	log *slog.Logger

	finding    turn // held while the environment is found or made
	installing turn // held while packages are installed

	found atomic.Pointer[environment] // set while finding is held

	note atomic.Pointer[string] // TakeNote returns it once; nil: there is nothing to say

	chosen   bool   // sessions chose the environment (Other); it is not the workspace's own
	basePath string // the interpreter that was chosen; empty: unknown

	othersMu sync.Mutex
	others   []*Manager // guarded by othersMu; the Managers that Other has made, in order

	programs  programs
	inProgram bool // this process is the program pip, which has no Owner
}

// New returns a Manager. It touches neither disk nor Python.
func New(cfg Config) *Manager {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Manager{cfg: cfg, log: log, finding: newTurn(), installing: newTurn()}
}

// Interpreter returns the path of the environment's Python. It makes the environment if there is
// none; other callers wait meanwhile. The answer is kept until the interpreter's file is gone. An
// error says how to fix it.
func (m *Manager) Interpreter(ctx context.Context) (string, error) {
	env, err := m.environment(ctx, func(string) {})
	return env.python, err
}

// environment is Interpreter for callers that need all of the environment. It calls say before each
// step that takes long.
//
// Callers take turns and do not share one search: a caller that stops waiting stops its own search,
// its processes included, and the next one begins another.
func (m *Manager) environment(ctx context.Context, say func(string)) (environment, error) {
	if env := m.found.Load(); env != nil && isFile(env.python) {
		return *env, nil
	}
	if err := m.finding.take(ctx); err != nil {
		return environment{}, err
	}
	defer m.finding.release()
	if env := m.found.Load(); env != nil {
		if isFile(env.python) {
			return *env, nil
		}
		m.log.Warn("environment is gone, searching for another", "python", env.python)
		m.found.Store(nil)
	}
	env, err := m.locate()
	if err != nil {
		return environment{}, err
	}
	if env.exists {
		err = m.checkMade(ctx, env)
	} else {
		env.python, err = m.make(ctx, env, say)
	}
	if err != nil {
		return environment{}, err
	}
	m.log.Info("environment found", "python", env.python, "setting", env.setting)
	m.found.Store(&env)
	if !env.exists && env.setting == "" && m.isUVProject() {
		note := "this is a uv project; run uv sync --frozen to install what it locks"
		m.note.Store(&note)
	}
	return env, nil
}

// TakeNote returns what the user should know about an environment that was made since the last
// call, or "".
func (m *Manager) TakeNote() string {
	if note := m.note.Swap(nil); note != nil {
		return *note
	}
	return ""
}

// isUVProject reports whether the workspace is a project of uv.
func (m *Manager) isUVProject() bool {
	return isFile(filepath.Join(m.cfg.Workspace, "uv.lock")) && isFile(filepath.Join(m.cfg.Workspace, "pyproject.toml"))
}

// current returns the environment in use, or else the one that would be used now. It starts
// nothing.
func (m *Manager) current() (environment, error) {
	if env := m.found.Load(); env != nil && isFile(env.python) {
		return *env, nil
	}
	return m.locate()
}

// Bin returns the environment's directory of programs, which leads the PATH of the workspace's
// commands. The directory need not exist yet. Bin returns "" if nothing need be added: the
// workspace's interpreter belongs to no environment and is on the PATH, so that the order of the
// PATH stays.
func (m *Manager) Bin() string {
	env, err := m.current()
	if err != nil {
		return ""
	}
	bin := filepath.Dir(env.python)
	if env.dir == "" && !m.chosen && slices.Contains(m.cfg.Path, bin) {
		return ""
	}
	return bin
}

// IsVirtual reports whether the environment is a virtual one. An environment that is yet to be made
// is; the system's interpreter and a conda environment are not.
func (m *Manager) IsVirtual() bool {
	env, err := m.current()
	return err == nil && env.dir != "" && (!env.exists || exists(filepath.Join(env.dir, "pyvenv.cfg")))
}

// A Description says which Python is used, or would be used now.
type Description struct {
	Python  string // the path of the interpreter
	Version string // "3.11"; empty if only starting it would show it
	Setting string // the name of the setting that chose it; empty: the workspace's own
	Dir     string // the environment's directory; empty if the interpreter belongs to none
	There   bool   // Python exists; if not, Dir is made on first use
	Base    string // the interpreter that Dir would be made from; empty if there is no python3
	UV      string // the path of uv, or of a shim for it; empty: no uv is on the PATH
}

// Describe returns a Description without starting a process or making a file. The error says how to
// fix the problem.
func (m *Manager) Describe() (Description, error) {
	var d Description
	d.UV, _ = m.lookPath("uv")
	env, err := m.current()
	if err != nil {
		return d, err
	}
	d.Python, d.Setting, d.Dir, d.There = env.python, env.setting, env.dir, isFile(env.python)
	python := d.Python // the one to describe the version of
	if !env.exists && !d.There {
		if d.Base = m.basePath; d.Base == "" {
			d.Base, _ = m.lookPath("python3")
		}
		if d.Base == "" {
			return d, nil
		}
		python = d.Base
	}
	version, ok := recorded(python)
	if env.exists && (ok || !isProgram(python)) {
		// The check starts nothing, because the files show the version.
		if err := m.check(context.Background(), env); err != nil {
			return d, err
		}
	}
	if ok {
		d.Version = version.version()
	}
	return d, nil
}

// A turn is a lock. Waiting for it ends with the caller's context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) } // holds a token while the turn is taken

func (t turn) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) release() { <-t }
