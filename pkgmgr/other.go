package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A Choice is the Python and the environment that a session asks for. If neither has a value, it is
// the environment of the workspace.
type Choice struct {
	Python Setting // the path of an interpreter, its name on the PATH, or a version: 3.12, 3.12.1
	Venv   Setting // the directory of an environment, or one in the workspace to make it in
}

// Other returns the Manager of the environment that c chooses. Choices of one environment share a
// Manager. If c chooses the workspace's environment, Other returns m itself. Close closes the others
// with m.
//
// Other makes nothing. It starts an interpreter only if no file shows its version. The error says
// how to fix the choice.
func (m *Manager) Other(ctx context.Context, c Choice) (*Manager, error) {
	if c.Python.Value == "" && c.Venv.Value == "" {
		return m, nil
	}
	o, err := m.choose(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("finding Python: %w", err)
	}
	env, err := o.locate()
	if err == nil && c.Venv.Value != "" {
		err = o.checkChosen(ctx, env)
	}
	if err != nil {
		return nil, err
	}
	m.othersMu.Lock()
	defer m.othersMu.Unlock()
	known, err := m.known(env, o.cfg.Base)
	if known != nil || err != nil {
		return known, err
	}
	if !env.exists && o.cfg.Base.Value == "" {
		o.cfg.Base = m.cfg.Python // the workspace's own
	}
	if exists(filepath.Join(env.dir, "conda-meta")) {
		o.cfg.CondaPrefix.Value = env.dir
	} else {
		o.cfg.VirtualEnv.Value = env.dir
	}
	m.others = append(m.others, o)
	return o, nil
}

// known returns the Manager of an environment, or nil if no Manager has it. Until an environment is
// made, the last choice of the Python that it is made from decides. The caller holds othersMu.
func (m *Manager) known(env environment, base Setting) (*Manager, error) {
	for _, o := range slices.Backward(m.others) {
		if o.uses(env) && (env.exists || base.Value == "" || base.Value == o.cfg.Base.Value) {
			return o, nil
		}
	}
	if !m.uses(env) {
		return nil, nil
	}
	if !env.exists && base.Value != "" {
		return nil, fmt.Errorf("making the environment %s: it is the workspace's own, which is made from the python3 on PATH; leave %s out, or set %s to another directory",
			env.dir, base.Name, env.setting)
	}
	return m, nil
}

// choose returns a new Manager for a choice.
func (m *Manager) choose(ctx context.Context, c Choice) (*Manager, error) {
	cfg := m.cfg
	cfg.Python, cfg.VenvDir = Setting{Name: c.Python.Name}, c.Venv
	cfg.VirtualEnv.Value, cfg.CondaPrefix.Value = "", ""
	var python interpreter
	if c.Python.Value != "" {
		var err error
		if python, err = m.wanted(ctx, c.Python); err != nil {
			return nil, err
		}
		if c.Venv.Value == "" {
			cfg.Python.Value = python.path
		} else {
			cfg.Base = c.Python
		}
	}
	o := New(cfg)
	o.chosen, o.basePath = true, python.path
	return o, nil
}

// Shares reports whether o, a Manager of perhaps other settings, has the environment of m.
func (m *Manager) Shares(o *Manager) bool {
	env, err := o.current()
	return err == nil && m.uses(env)
}

// uses reports whether env is the environment of m.
func (m *Manager) uses(env environment) bool {
	own, err := m.current()
	if err != nil {
		return false
	}
	if own.python == env.python {
		return true
	}
	a, errA := os.Stat(own.dir)
	b, errB := os.Stat(env.dir)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// checkChosen returns an error unless env is an environment that can be used, or can be made.
func (m *Manager) checkChosen(ctx context.Context, env environment) error {
	switch {
	case !env.exists:
		return m.checkPlace(env.dir)
	case !exists(filepath.Join(env.dir, "pyvenv.cfg")) && !exists(filepath.Join(env.dir, "conda-meta")):
		return fmt.Errorf("finding Python: %s has a Python, but is not an environment; set %s to another directory", env.dir, m.cfg.VenvDir.Name)
	}
	return m.checkMade(ctx, env)
}

// checkPlace returns an error unless dir is a directory of the workspace that holds nothing, or an
// environment that was made in part.
func (m *Manager) checkPlace(dir string) error {
	remedy := "set " + m.cfg.VenvDir.Name + " to another directory"
	if !m.inWorkspace(dir) {
		return fmt.Errorf("finding Python: %s is not an environment, and one is made only below the workspace %s; %s", dir, m.cfg.Workspace, remedy)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("making the environment %s: %w; %s", dir, reason(err), remedy)
	}
	begun := exists(filepath.Join(dir, "pyvenv.cfg"))
	if !begun && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != ".gitignore" }) {
		return fmt.Errorf("making the environment %s: the directory is neither an environment nor empty; %s", dir, remedy)
	}
	return nil
}

// inWorkspace reports whether dir, which need not exist, is below the workspace, also after links.
func (m *Manager) inWorkspace(dir string) bool {
	root, err := filepath.EvalSymlinks(m.cfg.Workspace)
	if err != nil {
		return false
	}
	for up := dir; up != filepath.Dir(up); up = filepath.Dir(up) {
		real, err := filepath.EvalSymlinks(up)
		if err != nil {
			continue
		}
		below, err := filepath.Rel(root, real+dir[len(up):])
		return err == nil && below != "." && filepath.IsLocal(below)
	}
	return false
}

// checkBase returns an error if the environment was made from another Python than the session asks
// for. found is the environment's Python. Any interpreter of a version such as 3.12 meets that
// version; only the interpreter at a path meets that path.
func (m *Manager) checkBase(ctx context.Context, env environment, found interpreter) error {
	want := m.cfg.Base.Value
	if want == "" || env.dir == "" || want == found.version() {
		return nil
	}
	if !minor().MatchString(want) {
		base, err := m.wanted(ctx, m.cfg.Base)
		if err != nil {
			return fmt.Errorf("finding Python: %w", err)
		}
		if base.version() == found.version() && !madeFromOther(env, base.path) {
			return nil
		}
	}
	return fmt.Errorf("finding Python: %s is an environment of Python %s from %s, and %s is %s; leave %s out, set %s to another directory, or remove this one",
		env.dir, found.version(), configOf(env.python)["home"], m.cfg.Base.Name, want, m.cfg.Base.Name, m.cfg.VenvDir.Name)
}

// madeFromOther reports whether an environment was made from another interpreter than python. It is
// false if files don't show that: the environment has a copy, or python is a script.
func madeFromOther(env environment, python string) bool {
	own, errOwn := filepath.EvalSymlinks(env.python)
	other, errOther := filepath.EvalSymlinks(python)
	dir, errDir := filepath.EvalSymlinks(env.dir)
	if errOwn != nil || errOther != nil || errDir != nil || isScript(other) {
		return false
	}
	below, err := filepath.Rel(dir, own)
	return err == nil && !filepath.IsLocal(below) && own != other
}
