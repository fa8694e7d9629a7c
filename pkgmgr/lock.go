package pkgmgr

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/descriptor"
)

// claim makes the directory if it does not exist, and takes the lock on it that keeps other servers
// out. The kernel releases the lock when this server exits
// (https://man7.org/linux/man-pages/man2/flock.2.html).
func (m *Manager) claim(ctx context.Context, dir string) (created bool, lock *os.File, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return false, nil, err
	}
	for {
		err := os.Mkdir(dir, 0o777)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return false, nil, err
		}
		created = err == nil
		lock, err := m.lockDir(ctx, dir, nil)
		if !errors.Is(err, errRemoved) {
			return created, lock, err
		}
	}
}

// errRemoved means that another server failed to make an environment and removed its directory.
var errRemoved = errors.New("removed meanwhile")

// lockDir opens a directory and takes the lock on it, which ends when all copies of the file are
// closed. If another process holds the lock, lockDir calls waits once, unless waits is nil.
func (m *Manager) lockDir(ctx context.Context, dir string, waits func()) (*os.File, error) {
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
	return f, nil
}

// lock waits for the lock on f. If the file system has no locks, it returns without one.
func (m *Manager) lock(ctx context.Context, f *os.File, waits func()) error {
	for {
		err := tryLock(f)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			m.log.Debug("no lock on the directory", "dir", f.Name(), "err", err)
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

// tryLock takes the lock on f, or returns EWOULDBLOCK if another process holds it.
func tryLock(f *os.File) error {
	return descriptor.Use(f, func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
}
