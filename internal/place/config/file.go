//go:build unix

package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSize bounds the file of places, and that of a Pod. etcd takes objects of up to 1.5 MiB.
const maxSize = 1 << 20

// load returns the content of a file that only this user or root can have written.
func load(path, workspace string) ([]byte, error) {
	file, err := open(path, workspace)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading it failed (%w): check the disk", err)
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("it is larger than %d bytes: name a smaller file", maxSize)
	}
	return text, nil
}

// open opens a file that only this user or root can have written, and that jobs in the workspace can't replace.
func open(path, workspace string) (*os.File, error) {
	dir, err := os.OpenFile(filepath.Dir(path), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("its directory can't be opened (%w): check the path", errors.Unwrap(err))
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkWriters(info); err != nil {
		return nil, fmt.Errorf("the directory %q that holds it: %w", dir.Name(), err)
	}
	if within(dir.Name(), workspace) {
		return nil, fmt.Errorf("it is in the workspace %q, where jobs could change it: move it elsewhere, or name your project by -workdir", workspace)
	}
	// Opening a FIFO must not wait for a writer.
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is a symbolic link: name the file itself")
	}
	if err != nil {
		return nil, fmt.Errorf("it can't be opened (%w): check the path", err)
	}
	file := os.NewFile(uintptr(fd), path)
	if info, err = file.Stat(); err == nil {
		err = checkWriters(info)
	}
	switch {
	case err != nil:
	case info.IsDir():
		err = errors.New("it is a directory: name the file")
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file: name one")
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// checkWriters returns an error if another user than this one and root can write a file or a directory.
func checkWriters(info os.FileInfo) error {
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, and this server runs as user %d: change its owner", owner, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("its mode is %#o, so that other users can write it: chmod go-w it", mode)
	}
	return nil
}

// within reports whether the workspace is a directory or one of those above it, by its path or without its
// links.
func within(dir, workspace string) bool {
	top, err := os.Stat(workspace)
	if err != nil {
		return false // nothing can be in a workspace that does not exist yet
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	for _, dir := range []string{dir, real} {
		for ; ; dir = filepath.Dir(dir) {
			if info, err := os.Stat(dir); err == nil && os.SameFile(info, top) {
				return true
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return false
}
