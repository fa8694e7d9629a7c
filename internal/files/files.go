//go:build unix

// Package files reads and writes the files of a workspace, and nothing outside it.
//
// Rules
//   - Every access goes through an [os.Root]: neither "..", an absolute path nor a symbolic link leads
//     out, even if another process swaps directories for links meanwhile. The workspace of a tenant is
//     opened once, see [Store.Keep].
//   - Only regular files are read, changed and replaced. They are opened without blocking: a plain
//     open of a FIFO waits for a writer (https://man7.org/linux/man-pages/man7/fifo.7.html).
//   - A file is written beside its place and then renamed, so that a reader sees the old or the new
//     content. Its mode is kept. An incomplete write leaves nothing.
//   - A path is relative to the workspace, or an absolute path in it. Readers and writers follow
//     links; [Dir.Remove] removes the link.
//
// A [Store] has one [Dir] for each workspace, so that all its writers keep the order of their
// checks and renames. Begin with Dir. The package knows no protocol and no tools.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"asyncrepl/internal/text/view"
)

// Errors that a caller can act on, besides [fs.ErrNotExist], [fs.ErrExist] and [fs.ErrPermission].
var (
	ErrOutside      = errors.New("this leads out of the workspace: give a path in it, and no link that leads out or is absolute")
	ErrNotRegular   = errors.New("this is not a regular file")
	ErrIsDirectory  = errors.New("this is a directory") // such an error is ErrNotRegular, too
	ErrNotDirectory = errors.New("this is not a directory")
	ErrName         = errors.New("this can't be the path of a file")
	ErrTooLarge     = errors.New("this is too large")
	ErrChanged      = errors.New("the file has changed meanwhile")
	ErrFull         = errors.New("the disk or the quota is full")
	ErrMoved        = errors.New("the workspace is not the directory any more that the server has opened: it was moved, replaced or deleted; put it back, or have whoever runs the server send it SIGHUP")
)

// A Store holds the directories of all workspaces. The zero value is ready to use.
type Store struct {
	mu   sync.Mutex
	dirs map[string]*Dir
}

// Dir returns the directory of a workspace, an absolute path.
func (s *Store) Dir(workspace string) *Dir {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirs[workspace] == nil {
		if s.dirs == nil {
			s.dirs = make(map[string]*Dir)
		}
		s.dirs[workspace] = &Dir{path: workspace}
	}
	return s.dirs[workspace]
}

// Keep opens a workspace. From then on its Dir stays in that directory, even if its owner puts a
// link to another tenant's in its place, and refuses to work once another directory or none is
// there. A workspace that is kept already is opened again only if again is true.
func (s *Store) Keep(workspace string, again bool) error {
	d := s.Dir(workspace)
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.kept != nil && (!again || d.inPlace(d.kept)) {
		return nil
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return fmt.Errorf("opening the workspace: %w", err)
	}
	d.kept = root // the garbage collector closes the previous root when no call uses it
	return nil
}

// A Dir is a workspace. Its methods are safe for concurrent use. Their errors name the path as it
// was given, and no system call.
type Dir struct {
	path string

	commits sync.Mutex // held between the check of a file and its replacement

	opening sync.Mutex

	// kept is the workspace as Keep opened it, guarded by opening. Without it, a tenant could
	// replace its workspace by a link to another tenant's. Nil: each call opens the path, because
	// there is no other tenant to protect.
	kept *os.Root
}

// root opens the workspace. The caller closes it.
func (d *Dir) root() (*os.Root, error) {
	d.opening.Lock()
	kept := d.kept
	d.opening.Unlock()
	var root *os.Root
	var err error
	switch {
	case kept == nil:
		root, err = os.OpenRoot(d.path)
	case !d.inPlace(kept):
		return nil, ErrMoved
	default:
		root, err = kept.OpenRoot(".")
	}
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", plain(err))
	}
	return root, nil
}

// inPlace reports whether the path of the workspace still leads to the directory that was opened.
func (d *Dir) inPlace(opened *os.Root) bool {
	was, err := opened.Stat(".")
	if err != nil {
		return false
	}
	is, err := os.Stat(d.path)
	return err == nil && os.SameFile(was, is)
}

// Abs returns the absolute path of a file of the workspace.
func (d *Dir) Abs(path string) string {
	if name, err := d.local(path); err == nil {
		return filepath.Join(d.path, name)
	}
	return path
}

// A File is an open regular file of a workspace.
type File struct {
	*os.File
	Info fs.FileInfo // the state of the file when it was opened
}

// Version returns a text that changes with the content of the file.
func Version(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Sprintf("%x-%x", fi.Size(), fi.ModTime().UnixNano())
	}
	return fmt.Sprintf("%x-%x-%x-%x", st.Ino, fi.Size(), fi.ModTime().UnixNano(), changeTime(st))
}

// Open opens a regular file for reading.
func (d *Dir) Open(path string) (*File, error) {
	root, name, err := d.enter(path)
	if err != nil {
		return nil, failed("reading", path, err)
	}
	defer root.Close()
	f, err := open(root, name)
	if err != nil {
		return nil, failed("reading", path, err)
	}
	return f, nil
}

// Remove removes a file or a link, but no directory.
func (d *Dir) Remove(path string) error {
	root, name, err := d.enter(path)
	if err != nil {
		return failed("deleting", path, err)
	}
	defer root.Close()
	fi, err := root.Lstat(name)
	if err == nil && fi.IsDir() {
		err = notRegular(fi.Mode())
	}
	if err == nil {
		err = root.Remove(name)
	}
	if err != nil {
		return failed("deleting", path, err)
	}
	return nil
}

// enter opens the workspace, and returns the name of path in it.
func (d *Dir) enter(path string) (root *os.Root, name string, err error) {
	if name, err = d.local(path); err != nil {
		return nil, "", err
	}
	if root, err = d.root(); err != nil {
		return nil, "", err
	}
	return root, name, nil
}

// local returns path relative to the workspace. The root decides whether it leads out: here only
// an absolute path can be refused.
func (d *Dir) local(path string) (string, error) {
	if strings.ContainsRune(path, 0) || path == "" {
		return "", ErrName
	}
	if !filepath.IsAbs(path) {
		return path, nil
	}
	for _, workspace := range []func() (string, error){
		func() (string, error) { return d.path, nil },
		func() (string, error) { return filepath.EvalSymlinks(d.path) },
	} {
		dir, err := workspace()
		if err != nil {
			continue
		}
		if path == dir {
			return ".", nil
		}
		if name, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/"); ok {
			if name = strings.TrimLeft(name, "/"); name == "" {
				return ".", nil
			}
			return name, nil
		}
	}
	return "", ErrOutside
}

// open opens a regular file for reading. It does not open other files, because opening a device can
// have effects. Another process can replace the file in between, so open checks the opened file
// again.
func open(root *os.Root, name string) (*File, error) {
	fi, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, notRegular(fi.Mode())
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if fi, err = f.Stat(); err == nil && !fi.Mode().IsRegular() {
		err = notRegular(fi.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f, fi}, nil
}

// notRegular returns the error for a file of another kind.
func notRegular(m fs.FileMode) error {
	kind := "no regular file"
	switch {
	case m.IsDir():
		kind = directoryKind
	case m&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case m&fs.ModeSocket != 0:
		kind = "a socket"
	case m&fs.ModeDevice != 0:
		kind = "a device"
	}
	return &kindError{kind}
}

const directoryKind = "a directory"

// A kindError is ErrNotRegular with the kind of the file.
type kindError struct{ kind string }

// Error returns the text of the error.
func (e *kindError) Error() string { return "this is " + e.kind }

// Is reports whether target is ErrNotRegular or, for a directory, ErrIsDirectory.
func (e *kindError) Is(target error) bool {
	return target == ErrNotRegular || target == ErrIsDirectory && e.kind == directoryKind
}

// failed returns an error that names what failed and the path as it was given.
func failed(doing, path string, err error) error {
	if path == "" {
		path = `""`
	}
	return fmt.Errorf("%s %s: %w", doing, view.Line(path, pathMax), plain(err))
}

// pathMax bounds a path in an error, in characters.
const pathMax = 300

// plain returns the cause of err without the names of system calls and temporary files. If callers
// can act on the cause, the result is or wraps one of this package's errors.
func plain(err error) error {
	for {
		e, ok := errors.AsType[*fs.PathError](err) // a PathError can hold another one
		if !ok {
			break
		}
		err = e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	switch {
	// os does not export this error: https://go.dev/issue/74640
	case err.Error() == "path escapes from parent":
		return ErrOutside
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("there is %w", err) // "there is no such file or directory"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ErrFull
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%w: %v", ErrName, err)
	}
	return err
}
