//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// addOwn adds the directory of the sandbox. The caller closes the Box, after an error, too.
func (b *Box) addOwn(state, identity, home string) (err error) {
	b.State = StateOf(state, identity)
	dir := filepath.Dir(b.State)
	if b.own, err = hold(unix.LOCK_SH, func() (string, error) { return dir, os.MkdirAll(dir, 0o700) }); err != nil {
		return unusable(state, err)
	}
	cache, temps := filepath.Join(dir, "cache"), filepath.Join(dir, "tmp")
	for _, path := range []string{b.State, cache, temps} {
		if err := makeDir(path, 0o700); err != nil {
			return unusable(state, err)
		}
	}
	removeUnused(temps, never)
	if b.temp, err = hold(unix.LOCK_EX, func() (string, error) { return os.MkdirTemp(temps, "") }); err != nil {
		return unusable(state, err)
	}
	files := filepath.Join(b.temp.path, "files")
	if err := makeDir(files, 0o777|os.ModeSticky); err != nil {
		return unusable(state, err)
	}
	b.mounts["/tmp"] = mount{writable, files}
	b.mounts["/var/tmp"] = b.mounts["/tmp"]
	b.mounts[b.State] = mount{writable, b.State}
	if path := filepath.Join(home, ".cache"); home != "" && b.mounts[path] == (mount{}) { // none was chosen
		b.mounts[path] = mount{writable, cache}
	}
	return nil
}

// makeDir makes a directory, or opens one that a job has closed.
func makeDir(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// unusable returns the error of a state directory that has no room, for example.
func unusable(state string, err error) error {
	return &PathError{Role: State, Path: state, Why: fmt.Sprintf("can't be used: %v", err)}
}

// Close removes the /tmp of the sandbox, whose programs have ended.
func (b *Box) Close() (err error) {
	if b.temp.lock != nil {
		err = removeAll(b.temp.path, never)
	}
	b.temp.lock.Close() // nil is fine, and so it is below
	b.own.lock.Close()
	return err
}

func never() bool { return false }
