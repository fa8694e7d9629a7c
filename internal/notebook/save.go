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

// A Saved describes the file that Save has written.
type Saved struct {
	Path     string // absolute
	Bytes    int    // its size
	Replaced bool   // there was a file before
}

// Save writes n to a file of the workspace, which is open as root, in one step, in the format of the
// file's extension. A relative path starts in the workspace. An existing file is replaced if overwrite
// is true; else the error is fs.ErrExist. Nothing is written after an error, which says what to do.
func Save(root *os.Root, workspace, path string, n *Notebook, overwrite bool) (Saved, error) {
	ext := filepath.Ext(path)
	if ext != ".ipynb" && ext != ".py" {
		return Saved{}, errors.New("the path must end in .ipynb, for a Jupyter notebook, or in .py")
	}
	name, err := local(workspace, path)
	if err != nil {
		return Saved{}, err
	}
	perm, err := replaceable(root, name, overwrite)
	if err != nil {
		return Saved{}, fmt.Errorf("writing %s: %w", path, err)
	}
	var b []byte
	if ext == ".py" {
		b = n.script()
	} else if b, err = n.ipynb(); err != nil {
		return Saved{}, err
	}
	saved := Saved{Path: filepath.Join(workspace, name), Bytes: len(b), Replaced: perm != 0}
	if perm == 0 {
		perm = 0o666 // as the umask allows
	}
	if err := write(root, name, b, perm, overwrite); err != nil {
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
func replaceable(root *os.Root, name string, overwrite bool) (fs.FileMode, error) {
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
	case !overwrite:
		return 0, fs.ErrExist
	case fi.Mode().Perm()&0o222 == 0: // which does not keep a rename from replacing it
		return 0, errors.New("it is read-only: give another path")
	}
	return fi.Mode().Perm(), nil
}

// write writes b to a temporary file beside name, and gives it that name.
func write(root *os.Root, name string, b []byte, perm fs.FileMode, overwrite bool) error {
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
	if err == nil && !overwrite {
		// A link, unlike a rename, does not replace a file that another program has made meanwhile.
		switch linked := root.Link(temporary, name); {
		case linked == nil:
			return plain(root.Remove(temporary))
		case errors.Is(linked, fs.ErrExist):
			err = fs.ErrExist
		} // any other error: the file system has no links
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
