package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// makeLimit bounds the commands that make an environment or install pip into it. They take 0.1 to 5
// s, and more on a slow disk.
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
	created, unlock, err := m.claim(ctx, env.dir)
	if err != nil {
		return "", fmt.Errorf("making the environment %s: %w; %s", env.dir, reason(err), m.elsewhere())
	}
	defer unlock()
	if made := environmentIn(env.dir, env.setting); made.exists {
		return made.python, nil
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
			os.RemoveAll(env.dir) // ours, and useless; its lock is held
		}
		return "", fmt.Errorf("making the environment %s: %w", env.dir, err)
	}
	return made.python, nil
}

// fill makes an environment in an existing directory: with uv if there is one, else with venv.
func (m *Manager) fill(ctx context.Context, dir string, base interpreter) error {
	if err := writeIgnore(dir); err != nil {
		return fmt.Errorf("%w; %s", reason(err), m.elsewhere())
	}
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
		argv = append(argv, "--without-scm-ignore-files") // ours is there
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

// claim makes the directory if it does not exist, and takes the lock on it that keeps other servers
// out. The kernel releases the lock when this server exits.
func (m *Manager) claim(ctx context.Context, dir string) (created bool, unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return false, nil, err
	}
	for {
		err := os.Mkdir(dir, 0o777)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return false, nil, err
		}
		created = err == nil
		unlock, err := m.lockDir(ctx, dir, nil)
		if !errors.Is(err, errRemoved) {
			return created, unlock, err
		}
	}
}

// errRemoved means that another server failed to make an environment and removed its directory.
var errRemoved = errors.New("removed meanwhile")

// lockDir takes the lock on a directory. If another server has it, lockDir calls waits once, unless
// it is nil.
func (m *Manager) lockDir(ctx context.Context, dir string, waits func()) (unlock func(), err error) {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && exists(dir):
		return nil, errors.New("it is a link to a directory that is gone")
	case errors.Is(err, fs.ErrNotExist):
		return nil, errRemoved
	case err != nil:
		return nil, err
	case !st.IsDir():
		return nil, errors.New("it is a file, not a directory")
	}
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRemoved
	}
	if err != nil {
		return nil, err
	}
	if err := m.lock(ctx, f, waits); err != nil {
		f.Close()
		return nil, err
	}
	if now, err := os.Stat(dir); err != nil || !os.SameFile(st, now) {
		f.Close()
		return nil, errRemoved
	}
	return func() { f.Close() }, nil
}

// lock waits for the lock on f. If the file system has no locks, it returns without one.
func (m *Manager) lock(ctx context.Context, f *os.File, waits func()) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var flock error
	for {
		err := conn.Control(func(fd uintptr) { flock = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB) })
		if err != nil {
			return err
		}
		if !errors.Is(flock, syscall.EWOULDBLOCK) {
			if flock != nil {
				m.log.Debug("no lock on the environment", "dir", f.Name(), "err", flock)
			}
			return nil
		}
		if waits != nil {
			waits()
			waits = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// reason returns a file system's error without the path, which the message names already.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
