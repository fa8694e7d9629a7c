//go:build unix

package history

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A dir is a directory that runs are read from. Jobs of a confined engine can have made what is in it: links,
// pipes, leases on files, files of any size. All readers open it through dir, whose paths can't leave root. A
// link to another place in root leads to what the same jobs wrote.
type dir struct {
	root *os.Root
	path string // the path of the directory below root; "." is root itself
}

// openDir opens a directory as a root. Jobs of a confined engine can't replace it.
func openDir(path string) (dir, error) {
	root, err := os.OpenRoot(path)
	return dir{root, "."}, err
}

// String returns the path of the directory.
func (d dir) String() string { return filepath.Join(d.root.Name(), d.path) }

func (d dir) at(name string) dir { return dir{d.root, filepath.Join(d.path, name)} }

// names returns the names in the directory, and at most n of them if n is not 0. They are none if it can't be
// read.
func (d dir) names(n int) []string {
	file, err := d.root.OpenFile(d.path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	names, _ := file.Readdirnames(n) // after an error, those before it count
	return names
}

var errNoFile = errors.New("it is no file of ours")

// open opens a file for reading. The error is errNoFile for a link, and for what is no regular file. It waits
// neither for a pipe nor for a lease.
func (d dir) open(name string) (*os.File, os.FileInfo, error) {
	path := filepath.Join(d.path, name)
	file, err := d.root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	named, err := d.root.Lstat(path)
	if err == nil {
		var st os.FileInfo
		if st, err = file.Stat(); err == nil {
			if st.Mode().IsRegular() && os.SameFile(st, named) {
				return file, st, nil
			}
			err = errNoFile
		}
	}
	file.Close()
	return nil, nil, err
}
