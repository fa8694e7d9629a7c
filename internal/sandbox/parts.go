//go:build unix

package sandbox

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The directory of a sandbox is State/sandbox/IDENTITY. It has three parts, of which jobs write each and
// can't replace any: state, at the same path inside; cache, in the home directory; and tmp/RUN/files, at
// /tmp. Each Box holds a lock on its tmp/RUN and one on the directory until it is closed, so that others know
// what no server uses. Jobs have neither directory inside, and can't hold the locks.

// StateOf returns the state directory of the engine in a sandbox.
func StateOf(state, identity string) string { return filepath.Join(partsDir(state), identity, "state") }

func partsDir(state string) string { return filepath.Join(state, "sandbox") }

// removed ends the names of directories that are being removed.
const removed = ".removed"

// Identities returns the identities of the sandboxes that a state directory has directories of.
func Identities(state string) (list []string) {
	entries, _ := os.ReadDir(partsDir(state)) // an error: there are none
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), removed) {
			list = append(list, e.Name())
		}
	}
	return list
}

// A held directory is not removed by another process.
type held struct {
	lock *os.File
	path string
}

// hold makes a directory and locks it.
func hold(how int, make func() (string, error)) (held, error) {
	for {
		path, err := make()
		if err != nil {
			return held{}, err
		}
		h, err := lock(path, how)
		if err == nil || !os.IsNotExist(err) { // another process has removed it before it was locked
			return h, err
		}
	}
}

// lock locks a directory.
func lock(path string, how int) (held, error) {
	file, err := os.Open(path)
	if err != nil {
		return held{}, err
	}
	err = unix.Flock(int(file.Fd()), how)
	var st, named os.FileInfo
	if err == nil {
		st, err = file.Stat()
	}
	if err == nil {
		named, err = os.Lstat(path)
	}
	if err == nil && !os.SameFile(st, named) {
		err = fs.ErrNotExist
	}
	if err != nil {
		file.Close()
		return held{}, err
	}
	return held{file, path}, nil
}

// removeUnused removes the directories whose servers were killed.
func removeUnused(dir string, stopped func() bool) {
	entries, _ := os.ReadDir(dir) // none: there is nothing to remove
	for _, e := range entries {
		if h, err := lock(filepath.Join(dir, e.Name()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			removeAll(h.path, stopped) // an error: the next one tries again
			h.lock.Close()
		}
	}
}

// A part is the directory of a sandbox that no server uses.
type part struct {
	path         string
	used         time.Time // when the last server started or ended, or was found killed
	cache, bytes int64     // the bytes that the cache and the full directory take on disk
}

// Evict removes the directories of sandboxes that no server has used for that long. Of the others that none
// uses now it removes the caches, and then everything, until they take at most that many bytes: first what was
// used longest ago. It also removes what killed servers have left in /tmp. Jobs can have made millions of files, so
// it returns when stopped reports true, and a later call continues.
func Evict(state string, age time.Duration, most int64, stopped func() bool) (err error) {
	var unused []part
	taken := int64(0)
	entries, _ := os.ReadDir(partsDir(state)) // an error: there are none
	for _, e := range entries {
		p := part{path: filepath.Join(partsDir(state), e.Name())}
		if !e.IsDir() || stopped() {
			continue
		}
		if strings.HasSuffix(p.path, removed) {
			err = errors.Join(err, removeAll(p.path, stopped))
			continue
		}
		temps := filepath.Join(p.path, "tmp")
		removeUnused(temps, stopped)
		h, lockErr := lock(p.path, unix.LOCK_EX|unix.LOCK_NB)
		if lockErr != nil {
			continue // a server uses it
		}
		h.lock.Close()
		if st, err := os.Stat(temps); err == nil {
			p.used = st.ModTime() // changes with what servers make and remove there; jobs can't change it
		}
		if time.Since(p.used) > age {
			err = errors.Join(err, p.remove("", stopped))
			continue
		}
		p.cache, p.bytes = bytesIn(filepath.Join(p.path, "cache"), stopped), bytesIn(p.path, stopped)
		unused, taken = append(unused, p), taken+p.bytes
	}
	if stopped() {
		return err // not everything was counted
	}
	slices.SortFunc(unused, func(a, b part) int { return a.used.Compare(b.used) })
	for i := range unused {
		if p := &unused[i]; taken > most && p.cache > 0 {
			err = errors.Join(err, p.remove("cache", stopped))
			taken, p.bytes = taken-p.cache, p.bytes-p.cache
		}
	}
	for i := range unused {
		if p := &unused[i]; taken > most {
			err = errors.Join(err, p.remove("", stopped))
			taken -= p.bytes
		}
	}
	return err
}

// remove removes a part of the directory, or all of it, unless a server has begun to use it.
func (p *part) remove(name string, stopped func() bool) error {
	h, err := lock(p.path, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil
	}
	path := filepath.Join(p.path, name)
	err = os.Chmod(path, 0o700) // a job can have closed it
	if err == nil {
		err = os.Rename(path, p.path+removed)
	}
	h.lock.Close() // a server that starts waits no longer than this
	if err != nil {
		return err
	}
	return removeAll(p.path+removed, stopped)
}

// removeAll removes a directory that jobs wrote, and which they can still change. Directories in it can be closed
// to everyone. They can also be nested until a process has no descriptors for all of them, and until their path is
// too long, so each is moved up to path before what is in it is removed. No link leads out of path.
func removeAll(path string, stopped func() bool) error {
	top, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer top.Close()
	err = empty(top, stopped, func(name string) error {
		below, err := openBelow(top, name)
		if err != nil {
			return err
		}
		defer below.Close()
		return empty(below, stopped, func(deeper string) error {
			return top.Rename(filepath.Join(name, deeper), rand.Text())
		})
	})
	return errors.Join(err, os.Remove(path))
}

var errStopped = errors.New("removing the directory of a sandbox: the server ends first")

// empty removes what is in a directory. It calls full for each directory that is not empty, and tries that again.
func empty(dir *os.Root, stopped func() bool, full func(name string) error) error {
	for {
		var failed error
		n := 0
		for _, name := range namesIn(dir) {
			if stopped() {
				return errStopped
			}
			err := dir.Remove(name)
			if err != nil && !os.IsNotExist(err) {
				if err = dir.Chmod(name, 0o700); err == nil {
					err = full(name)
				}
			}
			if err != nil {
				failed = err
			} else {
				n++
			}
		}
		if n == 0 {
			return failed
		}
	}
}

// namesIn returns names in a directory, and none only if it has none or can't be read. There can be millions.
func namesIn(dir *os.Root) []string {
	f, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(1024)
	return names
}

// openBelow opens a directory in a directory. [os.Root.OpenRoot] of its name would wait for a pipe in its place.
func openBelow(dir *os.Root, name string) (*os.Root, error) { return dir.OpenRoot(name + "/.") }

// deepest is how many directories below the first one bytesIn has open at once.
const deepest = 64

// bytesIn returns what a directory takes on disk with all that is in it. It does not count what is nested too
// deep, or closed.
func bytesIn(path string, stopped func() bool) int64 {
	top, err := os.OpenRoot(path)
	if err != nil {
		return 0
	}
	defer top.Close()
	return bytesBelow(top, 0, stopped)
}

func bytesBelow(dir *os.Root, depth int, stopped func() bool) (n int64) {
	f, err := dir.Open(".")
	if err != nil {
		return 0
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			info, err := dir.Lstat(name)
			if err != nil {
				continue
			}
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
			if !info.IsDir() || depth == deepest {
				continue
			}
			if below, err := openBelow(dir, name); err == nil {
				n += bytesBelow(below, depth+1, stopped)
				below.Close()
			}
		}
		if err != nil || stopped() {
			return n
		}
	}
}
