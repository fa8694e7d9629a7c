package pkgmgr

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/jobs/jobstest"
)

// choice returns a choice by the names of its settings.
func choice(python, venv string) Choice {
	return Choice{Python: Setting{"python", python}, Venv: Setting{"venv", venv}}
}

// other returns the Manager of a choice.
func other(t testing.TB, m *Manager, python, venv string) *Manager {
	t.Helper()
	o, err := m.Other(patient(t), choice(python, venv))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Environments of a workspace are made from the Python that was asked for, by uv and by venv, when
// they are first used. What is installed into one is not in the others, and its Manager alone is
// passed to Installed. Version control does not show them.
func TestOtherEnvironments(t *testing.T) {
	for _, maker := range []string{"venv", "uv"} {
		t.Run(maker, func(t *testing.T) {
			if testing.Short() {
				t.Skip("pip takes seconds")
			}
			t.Parallel()
			python, version := otherPython(t)
			w := newWorld(t)
			if maker == "uv" {
				w.addUV()
			}
			w.cfg.Path = append(w.cfg.Path, filepath.Dir(python))
			w.wheel("spam", "1.0", "1")
			var installed []*Manager
			w.cfg.Installed = func(_ context.Context, m *Manager, _ Changes) []string { installed = append(installed, m); return nil }
			m := New(w.cfg)
			own, second := other(t, m, version, ".venvs/own"), other(t, m, "", ".venvs/second")
			if dir := filepath.Join(w.cfg.Workspace, ".venvs"); exists(dir) {
				t.Error("an environment exists before it is used")
			}
			for o, want := range map[*Manager]string{own: version, second: numbersOf(t, realPython()), m: numbersOf(t, realPython())} {
				path, err := o.Interpreter(patient(t))
				if err != nil {
					t.Fatal(err)
				}
				if got := numbersOf(t, path); got != want || filepath.Dir(path) != o.Bin() {
					t.Errorf("%s is Python %s, want %s in %s", path, got, want, o.Bin())
				}
			}
			if got, want := endOf(t, jobstest.Registry(t), own, "spam"), "completed (installed spam 1.0)"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			const code = "import importlib.util; print(importlib.util.find_spec('spam') is not None)"
			for o, want := range map[*Manager]string{own: "True", second: "False", m: "False"} {
				if got := ask(t, o.Bin()+"/python", code); got != want {
					t.Errorf("in %s spam can be imported: %s, want %s", o.Bin(), got, want)
				}
			}
			if len(installed) != 1 || installed[0] != own {
				t.Errorf("Installed was called for %v, want %p", installed, own)
			}
			clean(t, w.cfg.Workspace)
		})
	}
}

// clean reports an error if version control shows something in a directory.
func clean(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Log("not tried, as there is no git: what it shows")
		return
	}
	out, err := exec.Command("sh", "-c", `cd "$0" && git init -q && git status --porcelain --untracked-files=all`, dir).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("git status: %v\n%s", err, out)
	}
}

// An interpreter without an environment is used as it is, and its directory leads the PATH.
func TestOtherInterpreterAsItIs(t *testing.T) {
	w := newWorld(t)
	python, version := otherPython(t)
	w.cfg.Path = append(w.cfg.Path, filepath.Dir(python))
	m := New(w.cfg)
	o := other(t, m, version, "")
	got, err := o.Interpreter(patient(t))
	if err != nil || numbersOf(t, got) != version {
		t.Errorf("Interpreter = %q, %v; want a Python %s", got, err, version)
	}
	if o.Bin() != filepath.Dir(got) || o.IsVirtual() {
		t.Errorf("Bin = %q, virtual: %v; want %q, not virtual", o.Bin(), o.IsVirtual(), filepath.Dir(got))
	}
	if exists(w.venv()) {
		t.Error("an environment was made")
	}
}

// Choices of the same environment share a Manager, and only they.
func TestOtherIsShared(t *testing.T) {
	w := newWorld(t)
	w.program("bin/python3.12")
	w.environment("env")
	w.environment("work space/.venv")
	m := New(w.cfg)
	made := other(t, m, "", "../env")
	later := other(t, m, "", "later")
	link := w.link(w.path("env"), "linked")
	for name, tt := range map[string]struct {
		python, venv string
		want         *Manager
	}{
		"nothing":                       {"", "", m},
		"the workspace's own":           {"", ".venv", m},
		"its interpreter":               {w.venv() + "/bin/python", "", m},
		"the same directory":            {"", w.path("env"), made},
		"through a link":                {"", link, made},
		"the interpreter in it":         {"../env/bin/python", "", made},
		"the version that it has":       {numbersOf(t, realPython()), "../env", made},
		"a directory that is not there": {"", "./later/", later},
		"an interpreter of its own":     {"3.12", "", nil},
	} {
		got := other(t, m, tt.python, tt.venv)
		if tt.want == nil && (got == m || got == made || got == later) || tt.want != nil && got != tt.want {
			t.Errorf("%s: Python %q in %q has the Manager of %s", name, tt.python, tt.venv, got.Bin())
		}
	}
	// Until it is made, the last choice of its Python decides; a choice without one shares it.
	asked := other(t, m, "3.12", "later")
	if asked == later || other(t, m, "", "later") != asked || other(t, m, "3.12", "later") != asked {
		t.Error("an environment that is yet to be made is not shared by its Python")
	}
}

func TestOtherErrors(t *testing.T) {
	w := newWorld(t)
	w.environment("env")
	w.program("opt/python3.12")
	w.program("opt/python3.8")
	w.script("usr/bin/python3", "")
	w.write("work space/src/main.py", "", 0o666)
	w.write("work space/notes", "", 0o666)
	w.write("work space/old/pyvenv.cfg", "home = /usr/bin\nversion = 3.8.1\n", 0o666)
	w.script("work space/old/bin/python", "")
	w.link(w.root, "work space/out")
	m := New(w.cfg)
	for name, tt := range map[string]struct{ python, venv, want string }{
		"no such Python":             {"3.77", "", "finding Python: there is no Python 3.77; found "},
		"a Python that is too old":   {"../opt/python3.8", ".venvs/a", "is Python 3.8, and 3.9 is the oldest that works; found "},
		"an environment too old":     {"", "old", "is Python 3.8 (named by venv), and 3.9 is the oldest"},
		"in the home":                {"", "~/env", "home/env is not an environment, and one is made only below the workspace"},
		"outside of the workspace":   {"", "../else", "is not an environment, and one is made only below the workspace"},
		"outside, by a link":         {"", "out/else", "is not an environment, and one is made only below the workspace"},
		"outside, an installation":   {"", "../usr", "has a Python, but is not an environment"},
		"the workspace":              {"", ".", "one is made only below the workspace"},
		"a directory of other files": {"", "src", "is neither an environment nor empty; set venv to another"},
		"a file":                     {"", "notes", "not a directory; set venv to another"},
		"another version":            {"../opt/python3.12", "../env", "and python is ../opt/python3.12; leave python out"},
		"the workspace's own":        {"../opt/python3.12", ".venv", "it is the workspace's own, which is made from the python3 on PATH; leave python out"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := m.Other(patient(t), choice(tt.python, tt.venv))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, %v\nwant %s", o, err, tt.want)
			}
		})
	}
}

// An environment that was made from another interpreter meanwhile is an error: no session gets
// another Python than the one it asked for.
func TestOtherWasMadeOtherwise(t *testing.T) {
	w := newWorld(t)
	w.program("opt/python3.77")
	o := other(t, New(w.cfg), "../opt/python3.77", "later")
	w.environment("work space/later")
	if python, err := o.Interpreter(patient(t)); err == nil || !strings.Contains(err.Error(), "is an environment of Python "+numbersOf(t, realPython())) {
		t.Errorf("Interpreter = %q, %v", python, err)
	}
}

// The program pip of each environment installs into it, and all are removed together.
func TestOtherPrograms(t *testing.T) {
	w := newWorld(t)
	state := w.addPrograms()
	w.program("opt/python3.12")
	m := New(w.cfg)
	o := other(t, m, "../opt/python3.12", ".venvs/a")
	dirs := map[string]bool{}
	for _, m := range []*Manager{m, o} {
		dir, err := m.Programs()
		if err != nil {
			t.Fatal(err)
		}
		dirs[dir] = true
		settings, err := os.ReadFile(filepath.Join(dir, "settings.json"))
		if got := strings.Contains(string(settings), ".venvs/a") && strings.Contains(string(settings), "python3.12"); err != nil || got != (m == o) {
			t.Errorf("settings of %s: %s, %v", m.Bin(), settings, err)
		}
	}
	m.Close()
	if got := names(t, state); len(dirs) != 2 || got != nil {
		t.Errorf("%d directories, of which %q are left", len(dirs), got)
	}
}
