package pkgmgr

import (
	"context"
	"log/slog"

	"asyncrepl/internal/proc"
	"asyncrepl/jobs"
)

// A Config says where a Manager looks and what it runs its commands with.
type Config struct {
	Workspace string // an absolute path; relative settings start there

	Python      string // REPL_PYTHON: an interpreter, used as it is
	VenvDir     string // REPL_VENV_DIR: an environment, made if it is not there
	VirtualEnv  string // VIRTUAL_ENV: an environment, used if it is there
	CondaPrefix string // CONDA_PREFIX: likewise

	Path []string // directories to look for python3 and uv in
	Env  []string // KEY=value, the whole environment of every command

	Owner *proc.Owner // starts the commands that find and make the environment

	// Command returns a runner for the installer, whose output becomes the
	// job's.
	Command func(argv, env []string, dir string) jobs.Runner

	// Installed, if set, is called after each install that succeeded and before
	// its job is final, so that running sessions look for modules anew.
	Installed func()

	Log *slog.Logger // nil: nothing is logged
}

// A Manager finds, makes and fills the environment of one workspace.
type Manager struct {
	cfg Config
}

// New returns a Manager. It touches neither disk nor Python.
func New(cfg Config) *Manager { return &Manager{cfg: cfg} }

// Interpreter returns the path of the environment's Python.
func (m *Manager) Interpreter(ctx context.Context) (string, error) { return "", nil }

// Bin returns the environment's directory of programs, whether or not it exists
// yet.
func (m *Manager) Bin() string { return "" }

// Install returns a runner that installs requirements.
func (m *Manager) Install(reqs []string) (jobs.Runner, error) { return nil, nil }

// ParseRequirements takes a text with one or several requirements apart.
func ParseRequirements(text string) ([]string, error) { return nil, nil }
