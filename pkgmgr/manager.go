package pkgmgr

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"asyncrepl/internal/process"
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

	Owner *process.Owner // starts the commands that find and make the environment

	// Command returns a runner for the installer, whose output becomes the
	// job's.
	Command func(argv, env []string, dir string) jobs.Runner

	// Installed, if set, is called after each install that changed something
	// and before its job is final, so that running sessions look for modules
	// anew. It returns notes for the receipt.
	Installed func(context.Context, Changes) []string

	Log *slog.Logger // nil: nothing is logged
}

// A Manager finds, makes and fills the environment of one workspace. It may be
// used by several goroutines at once.
type Manager struct {
	cfg Config
	log *slog.Logger

	finding    turn // held to find or make the environment
	installing turn // held to write into it

	found atomic.Pointer[place] // set while finding is held
}

// New returns a Manager. It touches neither disk nor Python.
func New(cfg Config) *Manager {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Manager{cfg: cfg, log: log, finding: newTurn(), installing: newTurn()}
}

// Interpreter returns the path of the environment's Python. The environment is
// made if there is none; callers that come meanwhile wait for it. What was
// found is kept, and found anew if it is gone. An error names the remedy.
func (m *Manager) Interpreter(ctx context.Context) (string, error) {
	return m.interpreter(ctx, func(string) {})
}

// interpreter is Interpreter that says what takes long.
func (m *Manager) interpreter(ctx context.Context, say func(string)) (string, error) {
	if pl := m.found.Load(); pl != nil && isFile(pl.python) {
		return pl.python, nil
	}
	if err := m.finding.take(ctx); err != nil {
		return "", err
	}
	defer m.finding.give()
	if pl := m.found.Load(); pl != nil {
		if isFile(pl.python) {
			return pl.python, nil
		}
		m.log.Warn("the environment is gone, looking for another", "python", pl.python)
		m.found.Store(nil)
	}
	pl, err := m.place()
	if err != nil {
		return "", err
	}
	if pl.there {
		err = m.use(ctx, pl)
	} else {
		pl.python, err = m.make(ctx, pl, say)
	}
	if err != nil {
		return "", err
	}
	m.log.Info("environment found", "python", pl.python, "setting", pl.setting)
	m.found.Store(&pl)
	return pl.python, nil
}

// Bin returns the environment's directory of programs, whether or not it exists
// yet: it leads the PATH of the workspace's commands. It is empty where nothing
// need be added, for a named interpreter that is no environment's and lies on
// the PATH anyway, whose order then stays as it is.
func (m *Manager) Bin() string {
	pl := m.found.Load()
	if pl == nil {
		p, err := m.place()
		if err != nil {
			return ""
		}
		pl = &p
	}
	bin := filepath.Dir(pl.python)
	if pl.dir == "" && slices.Contains(m.cfg.Path, bin) {
		return ""
	}
	return bin
}

// A place is where an environment is, or is to be made.
type place struct {
	setting string // the variable that named it; empty: the workspace's own
	dir     string // empty: a named interpreter that is no environment's
	python  string // its interpreter
	there   bool   // there is something at python
}

// place returns the first environment that exists, or else the one to make. It
// only looks at names in directories.
func (m *Manager) place() (place, error) {
	if m.cfg.Python != "" {
		return m.named()
	}
	if m.cfg.VenvDir != "" {
		return placeIn(m.abs(m.cfg.VenvDir), "REPL_VENV_DIR"), nil
	}
	if m.cfg.VirtualEnv != "" {
		if pl := placeIn(m.abs(m.cfg.VirtualEnv), "VIRTUAL_ENV"); pl.there {
			return pl, nil
		}
	}
	if m.cfg.CondaPrefix != "" {
		if pl := placeIn(m.abs(m.cfg.CondaPrefix), "CONDA_PREFIX"); pl.there {
			return pl, nil
		}
	}
	return placeIn(filepath.Join(m.cfg.Workspace, ".venv"), ""), nil
}

// named returns the place of the interpreter that was named.
func (m *Manager) named() (place, error) {
	python := m.cfg.Python
	if filepath.Base(python) == python {
		var ok bool
		if python, ok = m.lookPath(python); !ok {
			return place{}, fmt.Errorf("finding Python: REPL_PYTHON is %q, which is not on PATH; set it to the path of an interpreter", m.cfg.Python)
		}
	}
	pl := place{setting: "REPL_PYTHON", python: m.abs(python), there: true}
	if dir := filepath.Dir(filepath.Dir(pl.python)); isEnvironment(dir) {
		pl.dir = dir
	}
	return pl, nil
}

// placeIn returns the place of the environment in a directory.
func placeIn(dir, setting string) place {
	bin := filepath.Join(dir, "bin")
	for _, name := range []string{"python", "python3"} {
		python := filepath.Join(bin, name)
		// A link whose target is gone is there too: what is broken is told, not
		// passed over.
		if _, err := os.Lstat(python); err == nil {
			return place{setting: setting, dir: dir, python: python, there: true}
		}
	}
	return place{setting: setting, dir: dir, python: filepath.Join(bin, "python")}
}

// abs returns a path of the settings in full.
func (m *Manager) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(m.cfg.Workspace, path)
}

// lookPath finds a program on the PATH, whose relative entries don't count.
func (m *Manager) lookPath(name string) (string, bool) {
	for _, dir := range m.cfg.Path {
		if path := filepath.Join(dir, name); filepath.IsAbs(dir) && isProgram(path) {
			return path, true
		}
	}
	return "", false
}

// A turn is a lock whose waiters give up with their context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) } // holds a token while it is taken

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

func (t turn) give() { <-t }

// isFile tells whether a file other than a directory is at path.
func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// isProgram tells whether path is a file that may be run.
func isProgram(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}
