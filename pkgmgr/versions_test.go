package pkgmgr

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// otherPython returns an interpreter of this machine that can be used and is of another version
// than realPython, and its version.
func otherPython(t testing.TB) (python, version string) {
	t.Helper()
	own := numbersOf(t, realPython())
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/python3"))
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		more, _ := filepath.Glob(filepath.Join(dir, "python3.*"))
		found = append(found, more...)
	}
	for _, path := range found {
		if other, ok := recorded(path); ok && !other.tooOld() && other.version() != own && exec.Command(path, "-I", "-c", "import venv").Run() == nil {
			return path, other.version()
		}
	}
	t.Skip("this machine has only one Python, " + own)
	return "", ""
}

func numbersOf(t testing.TB, python string) string {
	t.Helper()
	return ask(t, python, "import sys; print('%d.%d' % sys.version_info[:2])")
}

// program writes a file that passes for a binary of Python; it can't be run.
func (w *world) program(name string) string {
	w.t.Helper()
	return w.write(name, "\x7fELF", 0o777)
}

func TestWantedPython(t *testing.T) {
	tests := map[string]struct {
		prepare    func(*world)
		want, path string // path in the world; empty: the error has want
	}{
		"version, by its name on PATH": {func(w *world) { w.program("bin/python3.12") }, "3.12", "bin/python3.12"},
		"version, behind another name": {func(w *world) {
			w.program("opt/python3.12")
			os.Remove(w.path("bin/python3"))
			w.link(w.path("opt/python3.12"), "bin/python3")
		}, "3.12", "bin/python3"},
		"version, in a later directory of PATH": {func(w *world) {
			w.program("bin/python3.11")
			w.program("later/python3.12")
			w.cfg.Path = append(w.cfg.Path, w.path("later"))
		}, "3.12", "later/python3.12"},
		"version, the answer of a script": {func(w *world) { w.script("bin/python3", "echo async-repl 3 12 "+w.path("real")) }, "3.12", "real"},
		"version, past a shim of another": {func(w *world) {
			w.script("pyenv/shims/python3.12", "echo pyenv: python3.12: command not found; exit 127")
			w.program("later/python3.12")
			w.cfg.Path = append(w.cfg.Path, w.path("pyenv/shims"), w.path("later"))
		}, "3.12", "later/python3.12"},
		"version, behind a shim": {func(w *world) {
			w.script("mise/shims/python3.12", "echo async-repl 3 12 "+w.path("real"))
			w.cfg.Path = append(w.cfg.Path, w.path("mise/shims"))
		}, "3.12", "real"},
		"patch version": {func(w *world) {
			for _, version := range []string{"3.12.10", "3.12.1"} {
				w.script("pyenv/versions/"+version+"/bin/python3", "[ $1 = -V ] && echo Python "+version)
				w.write("pyenv/versions/"+version+"/pyvenv.cfg", "version = "+version, 0o666) // what passes for a binary can't be run
			}
			w.script("bin/python3", "[ $1 = -V ] && echo Python 3.12.11 || echo async-repl 3 12 "+w.path("bin/python3"))
			w.cfg.Path = append(w.cfg.Path, w.path("pyenv/versions/3.12.10/bin"), w.path("pyenv/versions/3.12.1/bin"))
		}, "3.12.1", "pyenv/versions/3.12.1/bin/python3"},
		"name on PATH":            {func(w *world) { w.program("bin/python3.12") }, "python3.12", "bin/python3.12"},
		"path":                    {func(w *world) { w.program("opt/python3.12") }, "../opt/python3.12", "opt/python3.12"},
		"path below the home":     {func(w *world) { w.program("home/opt/python3.12") }, "~/opt/python3.12", "home/opt/python3.12"},
		"path of a script":        {func(w *world) { w.script("opt/py", "echo async-repl 3 12 /elsewhere") }, "../opt/py", "opt/py"},
		"version that is missing": {func(w *world) { w.program("bin/python3.12"); w.program("bin/python3.10") }, "3.77", "there is no Python 3.77; found 3.10 (BIN/python3.10), 3.12 (BIN/python3.12); set python to one of these"},
		"version, with uv":        {func(w *world) { w.program("bin/python3.12"); w.script("bin/uv", "") }, "3.77", "set python to one of these or install it (uv python install 3.77)"},
		"version that is too old": {func(w *world) { w.program("bin/python3.12"); w.program("bin/python3.8") }, "3.8", "BIN/python3.8 is Python 3.8, and 3.9 is the oldest that works; found 3.12 (BIN/python3.12); "},
		"version of Python 2":     {func(w *world) { w.script("bin/python", "echo async-repl 2 7 /usr/bin/python2.7") }, "2.7", "/usr/bin/python2.7 is Python 2.7, and 3.9 is the oldest that works"},
		"nothing at all":          {func(w *world) { w.cfg.Path = nil }, "3.12", "there is no Python 3.12; found no Python 3.9 or newer on PATH;"},
		"patch version missing":   {func(w *world) { w.program("bin/python3.12") }, "3.12.1", "there is no Python 3.12.1; found 3.12 (BIN/python3.12); set python to one of these"},
		"four numbers":            {func(w *world) { w.program("bin/python3.12") }, "3.12.1.2", "3.12.1.2 is not a version such as 3.12 or 3.12.1; found 3.12"},
		"path that is missing":    {func(w *world) { w.program("bin/python3.12") }, "/no/such/python", "there is no /no/such/python; found 3.12 (BIN/python3.12)"},
		"path that is too old":    {func(w *world) { w.program("opt/python3.6") }, "../opt/python3.6", "ROOT/opt/python3.6 is Python 3.6"},
		"directory":               {func(w *world) { w.program("opt/python3.6") }, "../opt", "is not a program"},
		"file":                    {func(w *world) { w.write("notes", "", 0o666) }, "../notes", "ROOT/notes is not a program"},
		"another program":         {func(w *world) { w.script("opt/py", "echo hello") }, "../opt/py", "does not answer like a Python"},
		"name that is missing":    {func(w *world) {}, "pythonista", `there is no "pythonista" on PATH`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.prepare(w)
			got, err := New(w.cfg).wanted(patient(t), Setting{"python", tt.want})
			if err == nil {
				if want := w.path(tt.path); got.path != want || got.version() != "3.12" {
					t.Errorf("%+v, want 3.12 at %s", got, want)
				}
				return
			}
			want := strings.NewReplacer("BIN", w.path("bin"), "ROOT", w.root).Replace(tt.path)
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v\nwant %s", err, want)
			}
		})
	}
}

// uv finds an interpreter where it searches, and the active environment. It does not take the
// workspace's environment for an interpreter. What it does not find is searched on the PATH.
func TestWantedPythonIsFoundByUV(t *testing.T) {
	w := newWorld(t)
	w.addUV()
	python, version := otherPython(t)
	whole := ask(t, python, "import platform; print(platform.python_version())")
	own := numbersOf(t, realPython())
	w.environment("work space/.venv")
	active := w.environment("active")
	w.program("bin/python3.77")
	w.cfg.Env[0] += ":" + filepath.Dir(python) // uv's PATH; that of the Manager stays as it is
	for name, tt := range map[string]struct{ active, want, dir string }{
		"a version":             {"", version, filepath.Dir(python)},
		"a patch version":       {"", whole, filepath.Dir(python)},
		"an active environment": {active, own, active + "/bin"},
		"not found by uv":       {"", "3.77", w.path("bin")},
	} {
		found, err := w.with("VIRTUAL_ENV="+tt.active).wanted(patient(t), Setting{"python", tt.want})
		if err != nil || filepath.Dir(found.path) != tt.dir || !strings.HasPrefix(tt.want, found.version()) {
			t.Errorf("%s: %+v, %v; want %s in %s", name, found, err, tt.want, tt.dir)
		}
	}
	if found, err := w.with().wanted(patient(t), Setting{"python", own}); err == nil && strings.HasPrefix(found.path, w.venv()) {
		t.Errorf("the workspace's environment is an interpreter: %+v", found)
	}
}
