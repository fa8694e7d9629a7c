//go:build unix

package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// LookPath returns the file that the program name stands for in the environment env. It skips
// relative elements of PATH, which would name another file in each directory.
func LookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, kv := range env { // the last one counts, as in a shell
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || unix.Access(file, unix.X_OK) != nil {
			continue
		}
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
			return file, nil
		}
	}
	return "", fmt.Errorf("starting %s: not found in PATH: %w", name, fs.ErrNotExist)
}

// startError returns the error of a failed start. If the directory is missing, the error names the
// directory: the kernel's error does not say which file was not found.
func startError(name, dir string, err error) error {
	if dir != "" {
		if st, derr := os.Stat(dir); derr != nil {
			return fmt.Errorf("starting %s: %w", name, derr)
		} else if !st.IsDir() {
			return fmt.Errorf("starting %s: %w", name, &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR})
		}
	}
	var perr *fs.PathError
	if errors.As(err, &perr) {
		err = perr.Err
	}
	return fmt.Errorf("starting %s: %w", name, err)
}
