//go:build unix

package door

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/kernel/descriptor"
)

// A Door is the place of the files of one key.
type Door struct {
	dir  *sockets.Dir
	name string // the name of the socket's file
}

const (
	prefix     = "place-"
	lockSuffix = ".lock"
	logSuffix  = ".log"
	newSuffix  = ".new" // a socket at which no process listens yet
)

// maxKey is the number of bytes that a key can have.
const maxKey = 64

// checkKey returns an error if a key can't be part of a file's name.
func checkKey(key string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if key == "" || len(key) > maxKey || strings.Trim(key, letters) != "" {
		return fmt.Errorf("the key %.80q can't be used: give 1 to %d letters, digits, - or _", key, maxKey)
	}
	return nil
}

// Open opens the directory of the sockets in temp, which is an absolute path, for the files of a key.
func Open(temp, key string) (*Door, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	places := sockets.Places("", temp)
	if len(places) == 0 {
		return nil, fmt.Errorf("the temporary directory is %q: set TMPDIR to an absolute path", temp)
	}
	dir, err := sockets.Open(places[0])
	if err != nil {
		return nil, err
	}
	d := &Door{dir, prefix + key}
	if n := len(d.at(newSuffix)); n > maxPath { // only on systems without paths by a descriptor
		dir.Close()
		return nil, fmt.Errorf("the path of the socket %s would have %d bytes, and this system allows %d: set TMPDIR to a shorter path", d.path(newSuffix), n, maxPath)
	}
	return d, nil
}

// maxPath is the length of the longest path that a socket can have.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// path returns the path of the file with a suffix, for errors.
func (d *Door) path(suffix string) string { return filepath.Join(d.dir.Path(), d.name+suffix) }

// at returns the path by which the file with a suffix is used.
func (d *Door) at(suffix string) string { return d.dir.At(d.name + suffix) }

// wrapped returns an error of a system call with the real path of the file with a suffix.
func (d *Door) wrapped(doing, suffix string, err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		err = path.Err
	}
	if link := new(os.LinkError); errors.As(err, &link) {
		err = link.Err
	}
	return fmt.Errorf("%s %s: %w", doing, d.path(suffix), err)
}

// errHeld means that another process has the lock.
var errHeld = errors.New("an engine of this key lives, or is being started")

// take takes the lock of the key. The error is errHeld if another process has it.
func (d *Door) take() (*os.File, error) {
	for {
		f, err := os.OpenFile(d.at(lockSuffix), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, d.wrapped("making", lockSuffix, err)
		}
		err = flock(f, unix.LOCK_EX)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, errHeld
		case err != nil:
			f.Close()
			return nil, fmt.Errorf("locking %s: %w: set TMPDIR to a directory on a local disk", d.path(lockSuffix), err)
		case d.locks(f):
			return f, nil
		}
		f.Close() // an engine that ended has removed it meanwhile
	}
}

// Take takes the lock of the key for an engine that was started without it. It waits a moment for
// processes that only ask whether an engine lives.
func (d *Door) Take() (*os.File, error) {
	for late := time.Now().Add(askTime); ; time.Sleep(pause) {
		f, err := d.take()
		if !errors.Is(err, errHeld) {
			return f, err
		}
		if time.Now().After(late) {
			return nil, fmt.Errorf("%w: join that one with async-repl dial", err)
		}
	}
}

const (
	askTime = time.Second           // bounds the time for which a process that asks has the lock
	pause   = 10 * time.Millisecond // between two attempts
)

// Taken returns an error if f, which this process has from the one that started it, is not the locked
// file of the key.
func (d *Door) Taken(f *os.File) error {
	if err := flock(f, unix.LOCK_EX); err != nil || !d.locks(f) { // it succeeds, because the lock is that of f
		return fmt.Errorf("descriptor %d is not the lock %s: this command is for async-repl dial", f.Fd(), d.path(lockSuffix))
	}
	return nil
}

// locks reports whether f is the file that has the name of the lock.
func (d *Door) locks(f *os.File) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(d.at(lockSuffix))
	return err == nil && os.SameFile(own, named)
}

// lives reports whether a process has the lock of the key: an engine lives, or is being started.
func (d *Door) lives() (bool, error) {
	f, err := os.OpenFile(d.at(lockSuffix), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, d.wrapped("opening", lockSuffix, err)
	}
	defer f.Close()
	err = flock(f, unix.LOCK_SH) // shared: several processes can ask at once
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("locking %s: %w", d.path(lockSuffix), err)
	}
	return false, nil
}

// flock locks a file, without waiting.
func flock(f *os.File, how int) error {
	return descriptor.Use(f, func(fd int) error {
		for {
			if err := unix.Flock(fd, how|unix.LOCK_NB); err != unix.EINTR {
				return err
			}
		}
	})
}

// clear removes the files of the key except the lock. The caller has the lock.
func (d *Door) clear() {
	for _, suffix := range []string{"", newSuffix, logSuffix} {
		os.Remove(d.at(suffix)) // an error: it is not there
	}
}

// Leave removes all files of the key. The caller has the lock, and must not use the door any more.
func (d *Door) Leave() {
	d.clear()
	os.Remove(d.at(lockSuffix)) // last: from now on another engine can start
}

// openLog opens the file of the engine's log, for appending. The caller has the lock.
func (d *Door) openLog() (*os.File, error) {
	f, err := os.OpenFile(d.at(logSuffix), os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, d.wrapped("making", logSuffix, err)
	}
	return f, nil
}

// LogPath returns the path of the file of the engine's log. It can be used while the door is open.
func (d *Door) LogPath() string { return d.at(logSuffix) }

// staleAge is the age at which what a killed engine has left is removed.
const staleAge = 24 * time.Hour

// Sweep removes what killed engines of other keys have left, so that it does not pile up. A log stays
// for a day, because it can say why the engine crashed.
func (d *Door) Sweep() {
	entries, _ := os.ReadDir(d.dir.At(".")) // an error: there is nothing to remove
	for _, e := range entries {
		name, isLock := strings.CutSuffix(e.Name(), lockSuffix)
		if !isLock || !strings.HasPrefix(name, prefix) || name == d.name {
			continue
		}
		other := &Door{d.dir, name}
		if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < staleAge {
			continue
		}
		if lock, err := other.take(); err == nil {
			other.Leave()
			lock.Close()
		}
	}
}

// Touch notes that the engine is in use: systems remove old files from directories for temporary ones.
func (d *Door) Touch() {
	now := time.Now()
	for _, suffix := range []string{"", lockSuffix} {
		os.Chtimes(d.at(suffix), now, now)
	}
}
