package pkgmgr

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"asyncrepl/jobs/jobstest"
)

// pip runs a command of pip in the world's environment, and returns what it printed.
func (w *world) pip(argv ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(patient(w.t), argv[0], argv[1:]...)
	cmd.Dir = w.cfg.Workspace
	cmd.Env = append(slices.Clone(w.cfg.Env), "PIP_REQUIRE_VIRTUALENV=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Errorf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// In an environment that a Manager made, "python -m pip" installs into it, although no pip was
// installed there, and can be replaced by a real one.
func TestPipOfNewEnvironment(t *testing.T) {
	tests := map[string]func(*world){
		"made by venv": func(*world) {},
		"made by uv":   func(w *world) { w.addUV() },
		"from a Python without pip": func(w *world) {
			_, python := w.prefix("python")
			w.script("bin/python3", `exec "`+python+`" "$@"`)
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("pip takes seconds")
			}
			t.Parallel()
			w := newWorld(t)
			prepare(w)
			w.wheel("spam", "1.0", "1")
			python, err := New(w.cfg).Interpreter(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			w.pip(python, "-m", "pip", "install", "spam")
			if got := ask(t, python, "import spam; print(spam.value)"); got != "1" {
				t.Errorf("spam.value = %s", got)
			}
			if name == "from a Python without pip" {
				return // each pip runs out of a wheel, which takes seconds
			}
			if got := w.pip(python, "-m", "pip", "list", "--format=freeze"); strings.TrimSpace(got) != "spam==1.0" {
				t.Errorf("the environment has packages besides spam:\n%s", got)
			}
			if name != "made by venv" {
				return // the pip that is replaced is the same, and to install one takes seconds
			}
			w.pip(python, "-m", "ensurepip", "--default-pip")
			if got := w.pip(python, "-m", "pip", "--version"); !strings.Contains(got, w.venv()) {
				t.Errorf("after pip was installed: %s", got)
			}
		})
	}
}

// An install into an environment of the user's that has no pip adds what was asked for and nothing
// else.
func TestInstallAddsNoPip(t *testing.T) {
	if testing.Short() {
		t.Skip("pip takes seconds")
	}
	t.Parallel()
	w := newWorld(t)
	w.wheel("spam", "1.0", "1")
	w.environment("work space/.venv")
	before := w.tree()
	if got, want := endOf(t, jobstest.Registry(t), New(w.cfg), "spam"), "completed (installed spam 1.0)"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	for name := range strings.Lines(w.tree()) {
		if !strings.Contains(before, name) && !strings.Contains(name, "spam") && !strings.HasSuffix(name, "/__pycache__\n") {
			t.Errorf("%s was added", name)
		}
	}
}
