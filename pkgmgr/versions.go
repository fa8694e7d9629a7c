package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"asyncrepl/internal/text/pattern"
	"asyncrepl/pkgmgr/installer"
)

// A session can ask for an interpreter by its version. uv finds it if there is a uv; else, or if uv
// finds none, the PATH is searched. Most programs show their minor version in a file's name, and
// only the others are started. If a patch version is wanted, all of that minor version are started.

var (
	versionLike = pattern.Lazy(`^\d[\d.]*$`)
	minor       = pattern.Lazy(`^\d+\.\d+$`)
	patch       = pattern.Lazy(`^\d+\.\d+\.\d+$`)
)

// wanted returns the interpreter that a setting names by its path, by its name on the PATH or by a
// version such as 3.12 or 3.12.1. The error lists the interpreters on the PATH.
func (m *Manager) wanted(ctx context.Context, s Setting) (interpreter, error) {
	found, err := m.search(ctx, s.Value)
	if err == nil && found.tooOld() {
		err = fmt.Errorf("%s is Python %s, and %d.%d is the oldest that works", found.path, found.version(), minMajor, minMinor)
	}
	if err == nil || ctx.Err() != nil {
		return found, err
	}
	remedy := ""
	if _, ok := m.lookPath("uv"); ok && errors.Is(err, errNoVersion) {
		remedy = " or install it (uv python install " + s.Value + ")"
	}
	return found, fmt.Errorf("%w; found %s; set %s to one of these%s", err, m.listed(), s.Name, remedy)
}

// errNoVersion says that there is no interpreter of a version.
var errNoVersion = errors.New("there is no Python")

// search returns the interpreter of a path, a name or a version.
func (m *Manager) search(ctx context.Context, name string) (interpreter, error) {
	if minor().MatchString(name) || patch().MatchString(name) {
		return m.ofVersion(ctx, name)
	}
	if versionLike().MatchString(name) {
		return interpreter{}, fmt.Errorf("%s is not a version such as 3.12 or 3.12.1", name)
	}
	if filepath.Base(name) == name {
		path, ok := m.lookPath(name)
		if !ok {
			return interpreter{}, fmt.Errorf("there is no %q on PATH", name)
		}
		return m.identify(ctx, path)
	}
	path := m.abs(name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return interpreter{}, fmt.Errorf("there is no %s", path)
	}
	if !isProgram(path) {
		return interpreter{}, fmt.Errorf("%s is not a program that can be run", path)
	}
	found, err := m.identify(ctx, path)
	found.path = path // the path that was named, even if it is a script that executes another
	return found, err
}

// identify returns the interpreter at path, or the one that a shim there executes. It starts it
// only if no file shows its version.
func (m *Manager) identify(ctx context.Context, path string) (interpreter, error) {
	if found, ok := recorded(path); ok {
		return found, nil
	}
	return m.probe(ctx, path)
}

// ofVersion returns the interpreter of a version such as 3.12 or 3.12.1 that uv finds, or else the
// first on the PATH. A shim whose version manager has no such version fails and is skipped.
func (m *Manager) ofVersion(ctx context.Context, version string) (interpreter, error) {
	if uv, ok := m.uv(ctx, environment{}); ok {
		// uv would prefer the workspace's .venv, once it has been made, so it searches from the
		// root (https://docs.astral.sh/uv/concepts/python-versions/).
		out, err := m.run(ctx, probeLimit, uv, "python", "find", "--directory", "/", "--no-project", "--offline", version)
		if path := installer.LastLine(string(out)); err == nil && filepath.IsAbs(path) {
			return m.identify(ctx, path)
		}
	}
	series := dotted().FindString(version)
	for _, name := range []string{"python" + series, "python3", "python"} {
		for _, dir := range m.cfg.Path {
			path := filepath.Join(dir, name)
			if !filepath.IsAbs(dir) || !isProgram(path) {
				continue
			}
			found, err := m.identify(ctx, path)
			if err == nil && found.version() == series && (version == series || m.isPatch(ctx, found, version)) {
				return found, nil
			}
		}
	}
	if ctx.Err() != nil {
		return interpreter{}, context.Cause(ctx)
	}
	return interpreter{}, fmt.Errorf("%w %s", errNoVersion, version)
}

// isPatch asks an interpreter whether its whole version, such as 3.12.1, is the given one.
func (m *Manager) isPatch(ctx context.Context, i interpreter, version string) bool {
	out, err := m.run(ctx, probeLimit, i.path, "-V")
	return err == nil && strings.TrimSpace(string(out)) == "Python "+version
}

// version returns the version as it is asked for.
func (i interpreter) version() string { return fmt.Sprintf("%d.%d", i.major, i.minor) }

// lastMinor is the last minor version of Python 3 that is searched for by its name.
const lastMinor = 30

// listed names the first interpreter on the PATH of each version that can be used, the oldest
// first, as far as a file shows the version.
func (m *Manager) listed() string {
	names := []string{"python3", "python"}
	for i := minMinor; i <= lastMinor; i++ {
		names = append(names, "python3."+strconv.Itoa(i))
	}
	first := map[int]string{} // the texts, by the minor version
	for _, dir := range m.cfg.Path {
		for _, name := range names {
			path := filepath.Join(dir, name)
			found, ok := recorded(path)
			if ok && filepath.IsAbs(dir) && isProgram(path) && !found.tooOld() && first[found.minor] == "" {
				first[found.minor] = found.version() + " (" + path + ")"
			}
		}
	}
	if len(first) == 0 {
		return fmt.Sprintf("no Python %d.%d or newer on PATH", minMajor, minMinor)
	}
	var texts []string
	for _, i := range slices.Sorted(maps.Keys(first)) {
		texts = append(texts, first[i])
	}
	return strings.Join(texts, ", ")
}
