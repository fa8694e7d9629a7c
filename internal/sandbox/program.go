//go:build linux

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A program needs more to be read than its file: each link that leads to it, and a Python its standard
// library and the environment that it is started in. A job can have written the links and the pyvenv.cfg
// of an environment in the workspace, so these are believed only if they lead to what is read anyway.

// addRead makes what is at a path readable, with the links that lead to it.
func (b *Box) addRead(r *rooms, role Role, path string) error {
	real, through, err := resolve(path)
	if err != nil || !b.visible(real) {
		if real, err = r.check(role, path); err != nil {
			return err
		}
		b.mounts[real] = mount{readOnly, real}
	}
	b.addLinks(through)
	return nil
}

// addLinks makes the links that were met on the way to a path.
func (b *Box) addLinks(through []string) {
	for _, path := range through {
		b.alias(path)
	}
}

// addPython makes an interpreter readable, with its environment and its installation. Without the file it
// adds nothing, if jobs can make the environment.
func (b *Box) addPython(r *rooms, python string) error {
	if _, err := os.Lstat(python); errors.Is(err, fs.ErrNotExist) {
		if r.jobsWrite(python) {
			return nil
		}
		return &PathError{Role: Python, Path: python, Why: "does not exist, and jobs can't make it"}
	}
	// Python searches for the environment beside the path that it is started by.
	dir := filepath.Dir(filepath.Dir(python))
	settings := filepath.Join(dir, "pyvenv.cfg")
	if exists(settings) || exists(filepath.Join(dir, "conda-meta")) {
		if err := b.addRead(r, Python, dir); err != nil {
			return err
		}
	}
	real, through, err := resolve(python)
	if err == nil { // otherwise it is a link to a Python that is gone, which the server explains
		if err := b.addInstallation(r, python, filepath.Dir(real), through); err != nil {
			return err
		}
		if err := b.addRead(r, Python, python); err != nil {
			return err
		}
	}
	home := homeKey(settings)
	realHome, through, err := resolve(home)
	if !filepath.IsAbs(home) || err != nil {
		return nil
	}
	if _, of, err := resolve(settings); err == nil {
		through = append(through, of...)
	}
	if err := b.addInstallation(r, settings, realHome, through); err != nil {
		return err
	}
	if b.visible(realHome) {
		b.addLinks(through)
	}
	return nil
}

// addInstallation makes the Python whose programs are in a directory without links readable. From names it,
// and through was met on the way.
func (b *Box) addInstallation(r *rooms, from, bin string, through []string) error {
	paths := r.installation(bin)
	for _, path := range paths {
		if b.visible(path) {
			continue
		}
		if w := r.leaves(path, through); w != "" {
			bad := &PathError{Role: Python, Path: from, Why: "leads from " + w + ", which jobs write, to a Python in " + filepath.Dir(bin)}
			if len(paths) == 1 {
				bad.Needs = path
			}
			return bad
		}
		if err := b.addRead(r, Python, path); err != nil {
			return err
		}
	}
	return nil
}

// installation returns the files of the Python whose programs are in a directory: its prefix, or its parts
// if other things than a Python are there, too.
func (r *rooms) installation(bin string) []string {
	prefix := filepath.Dir(bin)
	isPython, parts := false, []string(nil)
	for _, dir := range []string{"include", "lib", "lib64"} {
		entries, _ := os.ReadDir(filepath.Join(prefix, dir)) // without it there are no parts in it
		for _, e := range entries {
			if path := filepath.Join(prefix, dir, e.Name()); strings.HasPrefix(e.Name(), "python") || strings.HasPrefix(e.Name(), "libpython") {
				parts = append(parts, path)
				isPython = isPython || !r.isWritable(path) && exists(filepath.Join(path, "os.py")) // a job can make one of any directory
			}
		}
	}
	mixed := filepath.Dir(prefix) == "/" || r.home != "" && (under(r.home, prefix) || prefix == filepath.Join(r.home, ".local"))
	switch {
	case !isPython:
		return nil
	case mixed:
		return parts
	}
	return []string{prefix}
}

// jobsWrite reports whether jobs can make a path that does not exist.
func (r *rooms) jobsWrite(path string) bool {
	for ; path != "/"; path = filepath.Dir(path) {
		if real := resolved(path); real != "" {
			return r.isWritable(real)
		}
	}
	return false
}

// homeKey returns the directory of the Python that an environment was made with, as its pyvenv.cfg says
// (https://docs.python.org/3/library/venv.html#how-venvs-work), or "".
func homeKey(settings string) string {
	for text := range strings.Lines(line(settings)) {
		if key, value, _ := strings.Cut(text, "="); strings.EqualFold(strings.TrimSpace(key), "home") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
