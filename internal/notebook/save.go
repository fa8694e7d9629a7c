package notebook

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Errors of Save because of the file that is there already.
var (
	ErrForeign = errors.New("it exists and is no export: give another path, or delete it first")
	ErrChanged = errors.New("its code was changed after it was exported: give another path, or delete it first")
)

// maxFile bounds a file that is read to see whether it can be replaced.
const maxFile = 256 << 20

// A format writes and recognizes files.
type format struct {
	write   func(n *Notebook) ([]byte, error)
	changed func(b []byte) (bool, error)
}

// formats are the formats, by the extension of the file.
var formats = map[string]format{
	".ipynb": {(*Notebook).ipynb, changedIPYNB},
	".py":    {func(n *Notebook) ([]byte, error) { return n.script(), nil }, changedScript},
}

// A Saved describes the file that Save has written.
type Saved struct {
	Path     string // absolute
	Bytes    int    // its size
	Replaced bool   // there was an earlier export
}

// Save writes n to a file of the workspace, which is open as root, in one step, in the format of the
// file's extension. A relative path starts in the workspace. Nothing is written after an error, which says what to do.
func Save(root *os.Root, workspace, path string, n *Notebook) (Saved, error) {
	form, ok := formats[filepath.Ext(path)]
	if !ok {
		return Saved{}, errors.New("the path must end in .ipynb, for a Jupyter notebook, or in .py")
	}
	name, err := local(workspace, path)
	if err != nil {
		return Saved{}, err
	}
	perm, err := replaceable(root, name, form)
	if err != nil {
		return Saved{}, fmt.Errorf("writing %s: %w", path, err)
	}
	b, err := form.write(n)
	if err != nil {
		return Saved{}, err
	}
	saved := Saved{Path: filepath.Join(workspace, name), Bytes: len(b), Replaced: perm != 0}
	if perm == 0 {
		perm = 0o666 // as the umask allows
	}
	if err := write(root, name, b, perm); err != nil {
		return Saved{}, fmt.Errorf("writing %s: %w", path, err)
	}
	return saved, nil
}

// local returns path relative to the workspace, in which it must be, also if links are followed.
func local(workspace, path string) (name string, err error) {
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return "", fmt.Errorf("opening the workspace: %w", err)
	}
	outside := fmt.Errorf("the path %s is outside the workspace, %s: give a path in it", path, workspace)
	name = filepath.Clean(path)
	if filepath.IsAbs(path) {
		if name, err = filepath.Rel(workspace, path); err != nil || !filepath.IsLocal(name) {
			name, err = filepath.Rel(real, path)
		}
	}
	if err != nil || !filepath.IsLocal(name) {
		return "", outside
	}
	if dir, err := filepath.EvalSymlinks(filepath.Join(real, filepath.Dir(name))); err == nil {
		if rel, err := filepath.Rel(real, dir); err != nil || !filepath.IsLocal(rel) {
			return "", outside
		}
	}
	return name, nil
}

// replaceable returns the permissions of the file to replace, 0 if there is none, or an error if
// there is one that must not be replaced.
func replaceable(root *os.Root, name string, form format) (fs.FileMode, error) {
	fi, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil // write says so if it is the directory that is missing
	case err != nil:
		return 0, plain(err)
	case fi.IsDir():
		return 0, errors.New("it is a directory: give the path of a file in it")
	case !fi.Mode().IsRegular():
		return 0, errors.New("it is no regular file: give another path")
	case fi.Size() > maxFile:
		return 0, ErrForeign
	}
	old, err := root.ReadFile(name)
	if err != nil {
		return 0, plain(err)
	}
	changed, err := form.changed(old)
	if err == nil && changed {
		err = ErrChanged
	}
	return fi.Mode().Perm(), err
}

// write writes b to a temporary file beside name, and renames it.
func write(root *os.Root, name string, b []byte, perm fs.FileMode) error {
	temporary := filepath.Join(filepath.Dir(name), ".export-"+strings.ToLower(rand.Text()))
	f, err := root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s in the workspace: make it first", filepath.Dir(name))
	}
	if err != nil {
		return plain(err)
	}
	_, err = f.Write(b)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		root.Remove(temporary)
	}
	return plain(err)
}

// plain returns the cause of err without the names of system calls and temporary files.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
