package pkgmgr

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"asyncrepl/internal/text/pattern"
	"asyncrepl/internal/text/view"
	"asyncrepl/pkgmgr/installer"
)

// The changes of an install are read from the directories of the environment and not from the
// installer's output: the directories are the same for every installer, and right even if the
// installer was interrupted. An installer writes RECORD when a package is in place, so a package
// without RECORD does not count
// (https://packaging.python.org/specifications/recording-installed-packages/).

// A site describes the packages of an environment, as its interpreter reports it.
type site struct {
	Dirs    []string // the directories of packages; new packages go into the first
	Pip     string   // pipInside, pipOutside, or empty if there is no pip
	Managed bool     // the system forbids installs (PEP 668)
}

const (
	pipInside  = "inside"  // the environment has a package pip, perhaps ours
	pipOutside = "outside" // outsidePip finds one
)

// siteCode prints a site. Its argument is outsidePip. The user's directory of packages counts only
// outside of virtual environments.
const siteCode = `import json, os, site, sys, sysconfig
from importlib.util import find_spec
path, real = sysconfig.get_path, sys.prefix == sys.base_prefix
program = {"__name__": "outside"}
exec(sys.argv[1], program)
spec = find_spec("pip")
own = spec and spec.origin and os.path.isdir(os.path.join(os.path.dirname(spec.origin), "_internal"))
pip = "" if not own and not program["outside"]() else "inside" if spec else "outside"
dirs = [path("purelib"), path("platlib")] + ([site.getusersitepackages()] if real else [])
print("async-repl " + json.dumps({"dirs": dirs, "pip": pip,
    "managed": real and os.path.exists(os.path.join(path("stdlib"), "EXTERNALLY-MANAGED"))}))`

var siteAnswer = pattern.Lazy(`(?m)^async-repl (\{.*\})\s*$`)

// site asks an interpreter for its site.
func (m *Manager) site(ctx context.Context, python string) (site, error) {
	var s site
	out, err := m.run(ctx, probeLimit, python, "-I", "-c", siteCode, outsidePip)
	if err != nil {
		return s, err
	}
	answer := siteAnswer().FindSubmatch(out)
	if answer == nil || json.Unmarshal(answer[1], &s) != nil || len(s.Dirs) == 0 {
		return s, fmt.Errorf("%s does not answer like a Python: %q", python, view.Line(installer.LastLine(string(out)), 80))
	}
	for i, dir := range s.Dirs { // lib64 is a link to lib
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			s.Dirs[i] = real
		}
	}
	slices.Sort(s.Dirs[1:])
	s.Dirs = slices.Compact(s.Dirs)
	return s, nil
}

// A Package is a package that an install has put in place or removed.
type Package struct {
	Name, Version string
	Before        string // the version that it replaced; empty if there was none

	dir string // the .dist-info directory
}

func (p Package) String() string {
	switch p.Before {
	case "", p.Version:
		return p.Name + " " + p.Version
	}
	return p.Name + " " + p.Version + " (was " + p.Before + ")"
}

// list names packages in a line.
func list(ps []Package) string {
	const most = 8
	var names []string
	for i, p := range ps {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(ps)-most))
			break
		}
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// Changes are the changes of an install in the environment.
type Changes struct {
	Installed []Package // sorted by name

	Dir  string // the environment's directory; empty if the interpreter belongs to none
	Gone string // the directory of the environment that Dir replaces because it is gone; else empty

	removed []Package // sorted by name; no other version is in their place
	paths   []string  // new or changed .pth files
}

func (c Changes) none() bool {
	return len(c.Installed)+len(c.removed)+len(c.paths) == 0 && c.Gone == ""
}

// contents are the packages and .pth files of a site, by their paths.
type contents map[string]fs.FileInfo

// read returns the contents of a site. An entry that can't be read counts as absent.
func (s site) read() contents {
	c := contents{}
	for _, dir := range s.Dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			stamp := name
			switch filepath.Ext(name) {
			case ".dist-info":
				stamp = filepath.Join(name, "RECORD")
			case ".pth":
			default:
				continue
			}
			if st, err := os.Stat(stamp); err == nil {
				c[name] = st
			}
		}
	}
	return c
}

// since returns the changes from before to c.
func (c contents) since(before contents) Changes {
	var ch Changes
	gone := map[string]Package{}
	for name := range before {
		if _, still := c[name]; !still && filepath.Ext(name) == ".dist-info" {
			p := packageIn(name)
			gone[installer.Key(p.Name)] = p
		}
	}
	for name, st := range c {
		was, there := before[name]
		if there && os.SameFile(was, st) && was.ModTime().Equal(st.ModTime()) && was.Size() == st.Size() {
			continue
		}
		if filepath.Ext(name) == ".pth" {
			ch.paths = append(ch.paths, name)
			continue
		}
		p := packageIn(name)
		p.Before = gone[installer.Key(p.Name)].Version
		if there {
			p.Before = p.Version
		}
		delete(gone, installer.Key(p.Name))
		ch.Installed = append(ch.Installed, p)
	}
	for _, p := range gone {
		ch.removed = append(ch.removed, p)
	}
	byName := func(a, b Package) int { return strings.Compare(installer.Key(a.Name), installer.Key(b.Name)) }
	slices.SortFunc(ch.Installed, byName)
	slices.SortFunc(ch.removed, byName)
	slices.Sort(ch.paths)
	return ch
}

// packageIn returns the package of a .dist-info directory.
func packageIn(dir string) Package {
	name, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(dir), ".dist-info"), "-")
	p := Package{Name: name, Version: version, dir: dir}
	f, err := os.Open(filepath.Join(dir, "METADATA"))
	if err != nil {
		return p
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && lines.Text() != ""; {
		if name, ok := strings.CutPrefix(lines.Text(), "Name: "); ok {
			p.Name = strings.TrimSpace(name)
			break
		}
	}
	return p
}

// Modules returns the names by which the package is imported: its topmost regular packages and its
// modules outside of these.
func (p Package) Modules() []string {
	f, err := os.Open(filepath.Join(p.dir, "RECORD"))
	if err != nil {
		return nil
	}
	defer f.Close()
	regular := map[string]bool{}
	var files []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		file, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), `"`), ",")
		ext := path.Ext(file)
		if ext != ".py" && ext != ".so" || strings.HasPrefix(file, "..") || strings.HasPrefix(file, "/") {
			continue
		}
		files = append(files, file)
		if path.Base(file) == "__init__.py" {
			regular[path.Dir(file)] = true
		}
	}
	var modules []string
	for _, file := range files {
		parts := strings.Split(file, "/")
		last := len(parts) - 1
		parts[last], _, _ = strings.Cut(parts[last], ".")
		for i := 1; i <= last; i++ {
			if regular[strings.Join(parts[:i], "/")] {
				parts = parts[:i]
				break
			}
		}
		modules = append(modules, strings.Join(parts, "."))
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}
