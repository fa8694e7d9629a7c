package pkgmgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An interpreter can be asked for by its version. It is searched where the default one is: on the
// PATH, and among the interpreters of pyenv and uv. Most show their minor version in a file's name;
// only the others are started to ask them, and all of it if a patch version is wanted.

var (
	versionLike = pattern(`^\d[\d.]*$`)
	minor       = pattern(`^\d+\.\d+$`)
	patch       = pattern(`^\d+\.\d+\.\d+$`)
	special     = pattern(`\d[a-z]+$`) // of names such as python3.14t: free-threaded, debug
	digits      = pattern(`\d+`)
)

// wanted returns the interpreter that a setting names by its path, by its name on the PATH or by a
// version such as 3.12 or 3.12.1. The error lists the interpreters that exist.
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
	return found, fmt.Errorf("%w; found %s; set %s to one of these%s", err, listed(m.interpreters()), s.Name, remedy)
}

// errNoVersion says that there is no interpreter of a version.
var errNoVersion = errors.New("there is no Python")

// search returns the interpreter of a path, a name or a version.
func (m *Manager) search(ctx context.Context, name string) (interpreter, error) {
	if minor().MatchString(name) {
		return m.ofVersion(ctx, name)
	}
	if patch().MatchString(name) {
		return m.ofPatch(ctx, name)
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
	found.path = path // even if it is a script that executes another
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

// ofVersion returns the first interpreter of a version such as 3.12. Shims of version managers come
// last: they take 100 ms to say that they have none.
func (m *Manager) ofVersion(ctx context.Context, version string) (interpreter, error) {
	var shims []string
	for _, name := range []string{"python" + version, "python3", "python"} {
		path, ok := m.lookPath(name)
		if ok && isShim(path) {
			shims = append(shims, path)
			continue
		}
		if found, err := m.identify(ctx, path); ok && err == nil && found.version() == version {
			return found, nil
		}
	}
	for _, found := range m.interpreters() {
		if found.version() == version {
			return found, nil
		}
	}
	for _, path := range shims {
		if found, err := m.probe(ctx, path); err == nil && found.version() == version {
			return found, nil
		}
	}
	if ctx.Err() != nil {
		return interpreter{}, context.Cause(ctx)
	}
	return interpreter{}, fmt.Errorf("%w %s", errNoVersion, version)
}

// ofPatch returns the first interpreter of a version such as 3.12.1. Those of 3.12 are asked.
func (m *Manager) ofPatch(ctx context.Context, version string) (interpreter, error) {
	list := m.interpreters()
	if first, err := m.ofVersion(ctx, version[:strings.LastIndexByte(version, '.')]); err == nil {
		list = append([]interpreter{first}, list...)
	}
	for _, found := range list {
		if !strings.HasPrefix(version, found.version()+".") {
			continue
		}
		if out, err := m.run(ctx, probeLimit, found.path, "-V"); err == nil && strings.TrimSpace(string(out)) == "Python "+version {
			return found, nil
		}
	}
	if ctx.Err() != nil {
		return interpreter{}, context.Cause(ctx)
	}
	return interpreter{}, fmt.Errorf("%w %s", errNoVersion, version)
}

// version returns the version as it is asked for.
func (i interpreter) version() string { return fmt.Sprintf("%d.%d", i.major, i.minor) }

func isShim(path string) bool { return filepath.Base(filepath.Dir(path)) == "shims" }

// lastMinor is the last minor version of Python 3 that is searched for by its name.
const lastMinor = 30

// interpreters returns the interpreters whose version a file shows, without special builds: those
// on the PATH in its order, then those of pyenv and of uv, the newest first.
func (m *Manager) interpreters() (list []interpreter) {
	seen := map[string]bool{}
	add := func(path string) {
		real, err := filepath.EvalSymlinks(path)
		if found, ok := recorded(path); err == nil && ok && isProgram(path) && !seen[real] && !special().MatchString(filepath.Base(real)) {
			seen[real] = true
			list = append(list, found)
		}
	}
	for _, dir := range m.cfg.Path {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, name := range []string{"python3", "python"} {
			add(filepath.Join(dir, name))
		}
		for i := lastMinor; i >= 0; i-- {
			add(filepath.Join(dir, "python3."+strconv.Itoa(i)))
		}
	}
	for _, dir := range m.cfg.Path {
		if versions := filepath.Join(filepath.Dir(dir), "versions"); filepath.IsAbs(dir) && filepath.Base(dir) == "shims" {
			for _, name := range newestFirst(versions, "") {
				add(filepath.Join(versions, name, "bin", "python3"))
			}
		}
	}
	pythons := m.uvPythons()
	for _, name := range newestFirst(pythons, "cpython-") {
		add(filepath.Join(pythons, name, "bin", "python3"))
	}
	return list
}

// uvPythons returns the directory in which uv installs interpreters.
func (m *Manager) uvPythons() string {
	if dir := m.getenv("UV_PYTHON_INSTALL_DIR"); dir != "" {
		return m.abs(dir)
	}
	data := m.getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		data = filepath.Join(m.getenv("HOME"), ".local", "share")
	}
	return filepath.Join(data, "uv", "python")
}

// newestFirst returns the names in a directory that begin with prefix, by the numbers in them.
func newestFirst(dir, prefix string) (names []string) {
	entries, _ := os.ReadDir(dir) // an error: there is none
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	numbers := func(name string) (list []int) {
		for _, s := range digits().FindAllString(name, -1) {
			n, _ := strconv.Atoi(s)
			list = append(list, n)
		}
		return list
	}
	slices.SortStableFunc(names, func(a, b string) int { return slices.Compare(numbers(b), numbers(a)) })
	return names
}

// listed names the first interpreter of each version that can be used, the oldest first.
func listed(list []interpreter) string {
	slices.SortStableFunc(list, func(a, b interpreter) int { return a.major*1000 + a.minor - b.major*1000 - b.minor })
	list = slices.CompactFunc(list, func(a, b interpreter) bool { return a.version() == b.version() })
	var texts []string
	for _, i := range list {
		if !i.tooOld() {
			texts = append(texts, i.version()+" ("+i.path+")")
		}
	}
	if len(texts) == 0 {
		return fmt.Sprintf("no Python %d.%d or newer on PATH, of pyenv or of uv", minMajor, minMinor)
	}
	return strings.Join(texts, ", ")
}
