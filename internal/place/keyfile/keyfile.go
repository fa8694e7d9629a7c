//go:build unix

package keyfile

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	suffix     = ".json"
	lockSuffix = ".lock"
	unnamed    = ".new" // ends the name of a file that is being written
)

// A File is the file of this server. Its methods can be used by several goroutines.
type File struct {
	dir  *os.Root
	lock *os.File // locked until it is closed; nil: locks don't work here

	mu      sync.Mutex
	content content
}

// living has the keys of the files that this process has locked or is trying to lock.
//
// A POSIX lock belongs to a process: the process does not see its own, and loses it when it closes any
// descriptor of the file. The lock of flock belongs to the open file, which a child has until its exec, too:
// the server of a key that was killed meanwhile would count as living.
var living sync.Map

// New makes a file with a new key, for a server of a workspace and of a file of places. dir is the directory
// of all such files. It is made if it is missing.
func New(dir, workspace, places string) (*File, error) {
	root, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	key := strings.ToLower(rand.Text()[:16])
	f := &File{dir: root, content: content{Format: format, Key: key, Workspace: workspace, Places: places, Engines: make(map[string]Engine)}}
	living.Store(key, nil)
	f.lock, err = root.OpenFile(key+lockSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if setLock(f.lock) != nil { // the file is of use without a lock, but only to this server
			f.lock.Close()
			f.lock, err = nil, root.Remove(key+lockSuffix)
		}
		f.content.Locked = f.lock != nil
		err = errors.Join(err, f.write())
	}
	if err != nil {
		f.Close(true)
		return nil, fmt.Errorf("making a key for places in %q (%w): make room there, or set REPL_STATE_DIR", dir, err)
	}
	return f, nil
}

// TakeOver takes over the file of a server of the same workspace and file of places that has ended, with the
// engines in it. If there is none, or if locks don't work, it makes a new file.
func TakeOver(dir, workspace, places string) (*File, error) {
	root, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	fits := func(c content) bool { return c.Workspace == workspace && c.Places == places }
	for _, key := range ended(root, fits) {
		if f := take(root, key); f != nil {
			return f, nil
		}
	}
	root.Close()
	return New(dir, workspace, places)
}

// openDir opens the directory of the files, in which no other user can write.
func openDir(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the keys of places (%w): set REPL_STATE_DIR to a directory of yours", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of the keys of places (%w): set REPL_STATE_DIR to a directory of yours", err)
	}
	info, err := root.Stat(".")
	if err == nil && (info.Mode().Perm()&0o022 != 0 || !own(info)) {
		err = fmt.Errorf("other users can write to %q: take that away with chmod go-w, or set REPL_STATE_DIR to a directory of yours", dir)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

func own(info os.FileInfo) bool { return int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() }

// maxFiles bounds the number of files that are read.
const maxFiles = 1000

// A Left is what a server that has ended has left at places.
type Left struct {
	Workspace, Places string // its workspace, and the path of its file of places
	Engines           map[string]Engine
}

// ReadLeft returns what servers have left at places that no server has taken over, the newest first. It takes
// nothing over. Without a directory there is nothing. A file that was made where locks don't work is not read: whether its server lives is unknown.
func ReadLeft(dir string) (list []Left, err error) {
	if dir == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the keys of places: %w", err)
	}
	defer root.Close()
	for _, key := range ended(root, func(c content) bool { return len(c.Engines) > 0 }) {
		if lives(root, key) {
			continue
		}
		c, _, err := read(root, key) // again: a server can have changed it and ended since
		if err == nil && len(c.Engines) > 0 {
			list = append(list, Left{c.Workspace, c.Places, c.Engines})
		}
	}
	return list, nil
}

// lives reports whether a process has locked the file of a key, or the file is gone.
func lives(root *os.Root, key string) bool {
	if _, ours := living.Load(key); ours { // to close the lock would release it
		return true
	}
	file, err := openOwn(root, key+lockSuffix, os.O_RDONLY)
	if err != nil {
		return true
	}
	defer file.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock)
	return err != nil || lock.Type != unix.F_UNLCK
}

// ended returns the keys of the files that were made where locks work and fit. If no process holds the lock of
// one, its server has ended. Files with engines come first, and then the newest ones.
func ended(root *os.Root, fits func(content) bool) []string {
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(3 * maxFiles) // after an error, those before it count
	type candidate struct {
		key     string
		empty   int
		changed time.Time
	}
	var all []candidate
	for _, name := range names {
		key, ok := strings.CutSuffix(name, suffix)
		if !ok || !keys().MatchString(key) || len(all) == maxFiles {
			continue
		}
		c, changed, err := read(root, key)
		if err == nil && c.Locked && fits(c) {
			empty := 0
			if len(c.Engines) == 0 {
				empty = 1
			}
			all = append(all, candidate{key, empty, changed})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(a.empty-b.empty, b.changed.Compare(a.changed)) })
	var found []string
	for _, c := range all {
		found = append(found, c.key)
	}
	return found
}

// take locks the file of a key and reads it. It returns nil if another process or another file of this one
// has the lock, or if the file was removed meanwhile.
func take(root *os.Root, key string) *File {
	if _, taken := living.LoadOrStore(key, nil); taken {
		return nil
	}
	f := &File{dir: root}
	if f.claim(key) == nil {
		return f
	}
	f.lock.Close() // nil is fine
	living.Delete(key)
	return nil
}

// claim locks and reads the file of a key.
func (f *File) claim(key string) (err error) {
	if f.lock, err = openOwn(f.dir, key+lockSuffix, os.O_RDWR); err != nil {
		return err
	}
	if err := setLock(f.lock); err != nil {
		return err
	}
	locked, err := f.lock.Stat()
	if err != nil {
		return err
	}
	// The last server of the key can have removed the file since it was opened.
	if named, err := f.dir.Lstat(key + lockSuffix); err != nil || !os.SameFile(named, locked) {
		return errors.New("the lock was removed")
	}
	f.content, _, err = read(f.dir, key)
	return err
}

// setLock locks a file, and returns an error if another process has locked it, or if locks don't work.
func setLock(file *os.File) error {
	return unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
}

// read reads the file of a key, and returns when it was changed.
func read(root *os.Root, key string) (c content, changed time.Time, err error) {
	file, err := openOwn(root, key+suffix, os.O_RDONLY)
	if err != nil {
		return c, changed, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		changed = info.ModTime()
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = errors.New("it is too large")
	}
	if err == nil {
		c, err = decode(text, key)
	}
	return c, changed, err
}

// openOwn opens a regular file of ours that is no link. It waits neither for a pipe nor for a lease.
func openOwn(root *os.Root, name string, flags int) (*os.File, error) {
	named, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !named.Mode().IsRegular() || !own(named) {
		return nil, fmt.Errorf("%q is no file of ours", name)
	}
	file, err := root.OpenFile(name, flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(named, opened) {
		file.Close()
		return nil, fmt.Errorf("%q was replaced", name)
	}
	return file, nil
}

// Key returns the key.
func (f *File) Key() string { return f.content.Key }

// Engines returns the engines in the file, by the names that [File.Set] got.
func (f *File) Engines() map[string]Engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := maps.Clone(f.content.Engines)
	for name, e := range all {
		e.Sessions, e.Jobs = slices.Clone(e.Sessions), slices.Clone(e.Jobs)
		all[name] = e
	}
	return all
}

// Set puts an engine into the file, or replaces it. If the file can't be written, it stays as it was, and the
// error says so; the next change writes this one, too.
func (f *File) Set(name string, e Engine) error {
	if err := check(name, e); err != nil {
		return fmt.Errorf("noting an engine in the key file: %w", err)
	}
	e.Sessions, e.Jobs = slices.Clone(e.Sessions), slices.Clone(e.Jobs)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.content.Engines == nil { // null in a file that was taken over
		f.content.Engines = make(map[string]Engine)
	}
	f.content.Engines[name] = e
	return f.changed()
}

// Remove removes an engine from the file, if it is there. The error is as that of [File.Set].
func (f *File) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.content.Engines, name)
	return f.changed()
}

// changed writes the file after a change.
func (f *File) changed() error {
	if err := f.write(); err != nil {
		return fmt.Errorf("writing the key file of places (%w): a later server will not find this change; make room in the state directory", err)
	}
	return nil
}

// write replaces the file.
func (f *File) write() (err error) {
	text, err := json.Marshal(f.content)
	if err != nil {
		return err
	}
	if len(text) > maxSize {
		return fmt.Errorf("it has %d engines, which is more than %d bytes hold", len(f.content.Engines), maxSize)
	}
	name := f.content.Key + suffix
	f.dir.Remove(name + unnamed) // a killed server can have left one
	file, err := f.dir.OpenFile(name+unnamed, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = cmp.Or(err, file.Close()) // some file systems report a full disk here
	if err == nil {
		err = f.dir.Rename(name+unnamed, name)
	}
	if err != nil {
		f.dir.Remove(name + unnamed)
	}
	return err
}

// Close releases the file, so that a later server can take it over. With remove it removes the file: nothing
// is left at any place. Close is called once.
func (f *File) Close(remove bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if key := f.content.Key; remove {
		err = f.dir.Remove(key + suffix)
		f.dir.Remove(key + lockSuffix) // last, because a file without a lock is taken over by no server
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	living.Delete(f.content.Key)
	return errors.Join(err, f.dir.Close())
}
