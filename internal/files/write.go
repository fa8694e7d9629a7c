//go:build unix

package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// A Write says what Dir.Write writes.
type Write struct {
	Content io.Reader
	Limit   int64 // bounds the content, in bytes; for more, the error is ErrTooLarge

	// Check can refuse to replace old, which is nil if there is no file. It is called before the
	// content is read, so that a refusal comes early. It is called again with commits locked: the
	// file can have changed while the content was read. Nil: every file can be replaced.
	Check func(old fs.FileInfo) error
}

// A Written describes a file that was written.
type Written struct {
	Info     fs.FileInfo // describes the new file
	Replaced bool        // there was a file before
}

// Fresh is a Check that allows only new files.
func Fresh(old fs.FileInfo) error {
	if old != nil {
		return fs.ErrExist
	}
	return nil
}

// Write writes a file in one step, and makes the directories that it needs. Nothing is left after
// an error.
func (d *Dir) Write(path string, w Write) (Written, error) {
	return d.write("writing", path, w)
}

func (d *Dir) write(doing, path string, w Write) (Written, error) {
	root, name, err := d.enter(path)
	if err != nil {
		return Written{}, failed(doing, path, err)
	}
	defer root.Close()
	if w.Check == nil {
		w.Check = func(fs.FileInfo) error { return nil }
	}
	name, err = target(root, name)
	if err != nil {
		return Written{}, failed(doing, path, err)
	}
	done, err := d.replace(root, name, w)
	if err != nil {
		return Written{}, failed(doing, path, err)
	}
	return done, nil
}

// replace writes the file of a name that is not a link.
func (d *Dir) replace(root *os.Root, name string, w Write) (Written, error) {
	old, err := current(root, name, w)
	if err != nil {
		return Written{}, err
	}
	place, err := existing(root, parent(name))
	if err != nil {
		return Written{}, err
	}
	perm := fs.FileMode(0o666) // the umask is applied
	if old != nil {
		perm = old.Mode().Perm()
	}
	base := ".async-repl-" + strings.ToLower(rand.Text())
	temporary := place + base
	f, err := nameless(root, place, perm)
	named := err != nil
	if named {
		f, err = root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	}
	if err != nil {
		return Written{}, err
	}
	defer f.Close()
	err = fill(f, w, old)
	if err == nil && !named {
		err = giveName(root, f, place, base)
		named = err == nil
	}
	var done Written
	if err == nil {
		done, err = d.commit(root, temporary, name, f, w)
	}
	if err != nil && named {
		root.Remove(temporary)
	}
	return done, err
}

// current returns the file that a write would replace, nil if there is none.
func current(root *os.Root, name string, w Write) (fs.FileInfo, error) {
	old, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, w.Check(nil)
	case err != nil:
		return nil, err
	case !old.Mode().IsRegular():
		return nil, notRegular(old.Mode())
	case old.Mode().Perm()&0o222 == 0: // rename(2) would replace it all the same
		return nil, fmt.Errorf("%w: the file is read-only", fs.ErrPermission)
	}
	return old, w.Check(old)
}

// fill writes the content to the new file, and gives it the mode and, if it can, the owner of the
// old file.
func fill(f *os.File, w Write, old fs.FileInfo) error {
	n, err := io.Copy(f, io.LimitReader(w.Content, w.Limit+1))
	if err != nil {
		return err
	}
	if n > w.Limit {
		return ErrTooLarge
	}
	if old == nil {
		return nil
	}
	if st, ok := old.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		_ = f.Chown(int(st.Uid), int(st.Gid)) // if that is not allowed, the new file is this user's
	}
	return f.Chmod(old.Mode().Perm())
}

// commit checks the old file again and moves the new one to its place.
func (d *Dir) commit(root *os.Root, temporary, name string, f *os.File, w Write) (_ Written, err error) {
	d.commits.Lock()
	defer d.commits.Unlock()
	old, err := current(root, name, w)
	if err != nil {
		return Written{}, err
	}
	if old == nil {
		var made []string
		made, err = makeDirs(root, parent(name))
		defer func() {
			if err != nil {
				for _, dir := range slices.Backward(made) {
					root.Remove(dir) // unless another program has put something there
				}
			}
		}()
		if err != nil {
			return Written{}, err
		}
		// Another program can make the file at this moment. A link, unlike a rename, replaces
		// nothing.
		if err := root.Link(temporary, name); err == nil {
			return written(f, false, root.Remove(temporary))
		}
		if old, err = current(root, name, w); err != nil {
			return Written{}, err
		}
	}
	return written(f, old != nil, root.Rename(temporary, name))
}

// makeDirs makes a directory and the directories above it that do not exist, and returns those that
// it has made, from the top. The last step makes the target of a link, too.
func makeDirs(root *os.Root, dir string) (made []string, err error) {
	var missing []string
	for up := dir; up != "./"; up = parent(missing[len(missing)-1]) {
		if _, err := root.Stat(up); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, strings.TrimRight(up, "/"))
	}
	for _, name := range slices.Backward(missing) {
		if root.Mkdir(name, 0o777) == nil {
			made = append(made, name)
		}
	}
	return made, root.MkdirAll(dir, 0o777)
}

// written describes the new file f, unless the last step failed.
func written(f *os.File, replaced bool, err error) (Written, error) {
	if err != nil {
		return Written{}, err
	}
	fi, err := f.Stat()
	return Written{Info: fi, Replaced: replaced}, err
}

// maxLinks bounds the links that lead to the file that is written. Links in a circle would else be
// followed forever.
const maxLinks = 8

// target returns the name of the file that a name leads to through links, even if there is no such
// file. The result is not cleaned, because ".." after a link is the parent of the link's target.
func target(root *os.Root, name string) (string, error) {
	for range maxLinks {
		switch name[strings.LastIndexByte(name, '/')+1:] {
		case "":
			return "", &kindError{"the path of a directory: leave the slash at its end out"}
		case ".", "..":
			return "", notRegular(fs.ModeDir)
		}
		link, err := root.Readlink(name)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist):
			return name, nil // no link
		case err != nil:
			return "", err
		case strings.HasPrefix(link, "/"):
			return "", ErrOutside
		}
		name = parent(name) + link
	}
	return "", syscall.ELOOP
}

// parent returns the directory of a name, with a slash at its end.
func parent(name string) string {
	if dir := name[:strings.LastIndexByte(name, '/')+1]; dir != "" {
		return dir
	}
	return "./"
}

// existing returns the deepest directory on the way to dir that exists, with a slash at its end: a
// new file is written there until it is complete, so that no directories are left behind.
func existing(root *os.Root, dir string) (string, error) {
	for {
		fi, err := root.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && dir != "./":
			dir = parent(strings.TrimRight(dir, "/"))
		case err != nil:
			return "", err
		case !fi.IsDir():
			return "", syscall.ENOTDIR
		default:
			return dir, nil
		}
	}
}
