//go:build unix

package listener

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPath is the length of the longest path that a socket can have.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("the path of a Unix socket is absolute, and %q is not", path)
	}
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path of a Unix socket has %d bytes at most, and %s has %d", maxPath, path, len(path))
	}
	unlock, err := lockDir(ctx, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	cfg := net.ListenConfig{Control: makePrivate}
	l, err := cfg.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	made, err := os.Lstat(path)
	if err == nil && made.Mode().Perm() != 0o600 { // makePrivate does nothing on some systems
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return &unixListener{Listener: l, path: path, made: made}, nil
}

// makePrivate gives a socket the mode that its file begins with. On Linux that is the mode of the
// socket; other systems refuse.
func makePrivate(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
}

// lockTime bounds the wait for other servers that start in the same directory, which takes them a
// millisecond each.
const lockTime = time.Second

// lockDir locks a directory against other servers that start in it. Without the lock two of them
// can find the same stale socket, and the slower one removes the socket of the faster one. That is
// accepted if the directory stays locked, or the file system has no locks: every user who can read
// the directory can lock it, and must not keep a server from starting.
func lockDir(ctx context.Context, dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	unlock = func() { d.Close() }
	for late := time.After(lockTime); ; {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return unlock, nil
		}
		select {
		case <-late:
			return unlock, nil
		case <-ctx.Done():
			unlock()
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// removeStale removes a socket that no process listens at any more. Whatever else is at the path is
// an error.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("what is there is not a socket: choose another path")
	}
	c, err := net.Dial("unix", path)
	if errors.Is(err, unix.ECONNREFUSED) {
		return os.Remove(path)
	}
	if err == nil {
		c.Close()
	}
	if err == nil || errors.Is(err, unix.EAGAIN) { // too many connect to it at once
		return errors.New("a server that runs listens there: end it or choose another path")
	}
	return fmt.Errorf("another program may listen there: %w", err)
}

// A unixListener removes its socket when it closes, if it is still there.
type unixListener struct {
	net.Listener
	path   string
	made   fs.FileInfo
	remove sync.Once
}

func (l *unixListener) Close() error {
	l.remove.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.made) {
			os.Remove(l.path)
		}
	})
	return l.Listener.Close()
}
