//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A Role is what a path of a Config is for.
type Role string

const (
	Workspace Role = "workspace"
	Read      Role = "path to read"
	Write     Role = "path to write"
	Program   Role = "program"
	Shell     Role = "shell"
	Python    Role = "Python"
	State     Role = "state directory"
)

// A PathError is a path of a Config that a sandbox can't have.
type PathError struct {
	Role  Role
	Path  string
	Why   string // completes a sentence whose subject is the path
	Needs string // a path that must be read, too; "" if that does not help
}

func (e *PathError) Error() string { return fmt.Sprintf("the %s %q %s", e.Role, e.Path, e.Why) }

// under reports whether path is dir or below it. Both are clean.
func under(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// own are directories of which a sandbox has its own.
var own = []string{"/proc", "/dev", "/sys", "/tmp", "/run", "/var/tmp"}

// system are directories that other programs obey.
var system = []string{
	"/bin", "/boot", "/etc", "/lib", "/lib64", "/nix", "/opt", "/sbin", "/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/sbin",
}

// homeOf returns a home directory without links, or "" if there is none to hide: users of the system have
// such as / and /usr/sbin.
func homeOf(path string) string {
	home := resolved(path)
	if home == "" || !filepath.IsAbs(path) {
		return ""
	}
	if slices.ContainsFunc(slices.Concat(system, own), func(dir string) bool { return under(dir, home) }) {
		return ""
	}
	return home
}

// rooms are the places that a path is compared with, without links. An empty path is no place.
type rooms struct {
	home, state string
	writable    []string // the directories that jobs write
}

// check returns the path without links, or an error if a sandbox must not have it. A job can have swapped
// what is in a writable directory for a link in an earlier run, so a path that gets out of one is refused.
func (r *rooms) check(role Role, path string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", &PathError{Role: role, Path: path, Why: fmt.Sprintf(format, args...)}
	}
	if !filepath.IsAbs(path) {
		return bad("is not absolute")
	}
	real, through, err := resolve(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bad("does not exist")
	case err != nil:
		return bad("can't be used: %v", err)
	case real == "/":
		return bad("is the root of all files")
	}
	if from := r.leaves(real, through); from != "" {
		return bad("leads by a link from %s, which jobs write, to %s", from, real)
	}
	info, err := os.Stat(real)
	if err != nil {
		return bad("can't be used: %v", err)
	}
	if role == Workspace && !info.IsDir() {
		return bad("is no directory")
	}
	if r.home != "" && under(r.home, real) {
		return bad("holds the home directory %s", r.home)
	}
	switch {
	case r.state == "":
	case (role == Workspace || role == Write) && r.state != real && under(r.state, real):
		return "", &PathError{Role: State, Path: r.state, Why: "is in " + real + ", which jobs write"}
	case under(r.state, real), under(real, r.state):
		return bad("and the state directory %s hold one another", r.state)
	}
	for _, dir := range own {
		if under(dir, real) || dir != "/tmp" && dir != "/run" && dir != "/var/tmp" && under(real, dir) {
			return bad("is, holds or is in %s, of which a sandbox has its own", dir)
		}
	}
	for _, dir := range system {
		other, err := os.Stat(dir)
		if (role == Workspace || role == Write) && (under(dir, real) || err == nil && os.SameFile(info, other)) {
			return bad("is or holds %s, which belongs to the system", dir)
		}
	}
	return real, nil
}

// isWritable reports whether jobs write a path without links.
func (r *rooms) isWritable(path string) bool {
	return slices.ContainsFunc(r.writable, func(w string) bool { return under(path, w) })
}

// leaves returns the directory that a path has left, of those that jobs write, or "". Real is the path
// without links, and through what was met on the way.
func (r *rooms) leaves(real string, through []string) string {
	for _, w := range r.writable {
		if !under(real, w) && slices.ContainsFunc(through, func(t string) bool { return under(t, w) }) {
			return w
		}
	}
	return ""
}

// resolve returns the path without links, and each path that was met on the way to it.
func resolve(path string) (real string, through []string, err error) {
	rest := strings.Split(filepath.Clean(path), "/")
	real = "/"
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(real, name) // also of "..": real has no links
		info, err := os.Lstat(next)
		if err != nil {
			return "", nil, err
		}
		through = append(through, next)
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > 40 {
			return "", nil, syscall.ELOOP
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, through, nil
}

// resolved returns the path without links, or "" if it does not exist.
func resolved(path string) string {
	if path == "" {
		return ""
	}
	real, _, err := resolve(path)
	if err != nil {
		return ""
	}
	return real
}
