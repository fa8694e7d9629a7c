package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// makeLimit bounds the commands that make an environment. They take 0.1 s, and more on a slow disk.
const makeLimit = 3 * time.Minute

// elsewhere returns the remedy if an environment can't be made in its directory.
func (m *Manager) elsewhere() string {
	return fmt.Sprintf("set %s to a directory where it may be made, or %s to an interpreter", m.cfg.VenvDir.Name, m.cfg.Python.Name)
}

// make makes an environment and returns its Python. If several servers make the same one, the first
// does, and the others wait and use it.
func (m *Manager) make(ctx context.Context, env environment, say func(string)) (string, error) {
	base, err := m.base(ctx)
	if err != nil {
		return "", fmt.Errorf("making the environment %s: %w", env.dir, err)
	}
	created, lock, err := m.claim(ctx, env.dir)
	if err != nil {
		return "", fmt.Errorf("making the environment %s: %w; %s", env.dir, reason(err), m.elsewhere())
	}
	defer lock.Close()
	if made := environmentIn(env.dir, env.setting); made.exists {
		return made.python, m.check(ctx, made)
	}
	if exists(filepath.Join(env.dir, "Scripts")) {
		return "", fmt.Errorf("making the environment %s: it is an environment of Windows; %s", env.dir, m.elsewhere())
	}
	say(fmt.Sprintf("Making the environment %s from %s\n", env.dir, base.path))
	err = m.fill(ctx, env.dir, base)
	made := environmentIn(env.dir, env.setting)
	if err == nil && !isProgram(made.python) {
		err = fmt.Errorf("there is no %s afterwards; %s", made.python, m.elsewhere())
	}
	if err != nil {
		if created {
			os.RemoveAll(env.dir) // we made it and hold its lock, so no other server uses it
		}
		return "", fmt.Errorf("making the environment %s: %w", env.dir, err)
	}
	return made.python, nil
}

// fill makes an environment in an existing directory, with a package pip.
func (m *Manager) fill(ctx context.Context, dir string, base interpreter) error {
	if err := writeIgnore(dir); err != nil {
		return fmt.Errorf("%w; %s", reason(err), m.elsewhere())
	}
	if err := m.makeIn(ctx, dir, base); err != nil {
		return err
	}
	if err := addPip(dir); err != nil {
		return fmt.Errorf("adding a package pip: %w; %s", err, m.elsewhere())
	}
	return nil
}

// makeIn makes an environment in a directory: with uv if there is one, else with venv.
func (m *Manager) makeIn(ctx context.Context, dir string, base interpreter) error {
	if uv, ok := m.uv(ctx, environment{}); ok {
		_, err := m.run(ctx, makeLimit, uv, "venv", "--quiet", "--no-project", "--no-config", "--offline",
			"--allow-existing", "--python", base.path, dir)
		if err == nil || ctx.Err() != nil {
			return err
		}
		m.log.Warn("uv made no environment, trying venv", "uv", uv, "err", err)
	}
	argv := []string{base.path, "-I", "-m", "venv", "--without-pip", dir}
	if base.minor >= 13 {
		argv = append(argv, "--without-scm-ignore-files") // writeIgnore has written one
	}
	out, err := m.run(ctx, makeLimit, argv...)
	if err != nil && lacksModule(out) {
		return fmt.Errorf("%s has no module venv; install it (Debian, Ubuntu: apt install python3-venv), or install uv", base.path)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w; %s", err, m.elsewhere())
	}
	return err
}

// writeIgnore hides the directory from version control, whatever makes the environment.
func writeIgnore(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, ".gitignore"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// lacksModule reports whether Python printed that it lacks a part that some distributions package
// separately.
func lacksModule(out []byte) bool {
	s := string(out)
	for _, word := range []string{"No module named venv", "No module named ensurepip", "No module named 'ensurepip'",
		"ensurepip is not available", "ensurepip is disabled", "python3-venv"} {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}

// reason returns a file system's error without the path, which the message names already.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
