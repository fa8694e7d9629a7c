package pkgmgr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// addPrograms gives the world a program pip, which prints its arguments, and returns the state
// directory.
func (w *world) addPrograms() string {
	w.t.Helper()
	state := w.path("state")
	w.cfg.Pip = []string{w.script("the 'pip", `for a; do echo "$a"; done`), "run"}
	w.cfg.StateDir = func() (string, error) { return state, os.MkdirAll(state, 0o777) }
	return state
}

// names returns the names in a directory.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// The directory of the programs is closed to other users, and Close removes it.
func TestPrograms(t *testing.T) {
	w := newWorld(t)
	state := w.addPrograms()
	m := New(w.cfg)
	if exists(state) {
		t.Error("the state directory exists before the first use")
	}
	dir, err := m.Programs()
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	for _, name := range []string{"pip", "pip3"} {
		want := "run\n" + dir + "/settings.json\ninstall\na  b'c\n"
		if got := w.pip(filepath.Join(dir, name), "install", "a  b'c"); got != want {
			t.Errorf("%s was called with %q, want %q", name, got, want)
		}
	}
	m.Close()
	if got := names(t, state); got != nil {
		t.Errorf("%q are left", got)
	}
}

// The directory is made again where it was if it was opened to other users, or something of it is
// gone: running sessions have it in their PATH.
func TestProgramsAreMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.addPrograms()
	m := New(w.cfg)
	defer m.Close()
	dir, err := m.Programs()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Programs(); err == nil || !strings.Contains(err.Error(), "open to other users") {
		t.Errorf("open to other users: %v", err)
	}
	for _, gone := range []string{dir, filepath.Join(dir, "pip")} {
		if _, err := m.Programs(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		if again, err := m.Programs(); err != nil || again != dir {
			t.Errorf("after the removal of %s: %s, %v; want %s", gone, again, err, dir)
		}
		for _, name := range []string{"pip", "pip3"} {
			if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm()&0o100 == 0 {
				t.Errorf("after the removal of %s, %s can't be run: %v", gone, name, err)
			}
		}
	}
}

// Jobs get no program that can't be run, or that other users could replace.
func TestProgramsRefused(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		want    string
	}{
		"no program":       {func(w *world) { w.cfg.Pip = nil }, "this server has none"},
		"no directory":     {func(w *world) { w.write("state", "", 0o666) }, "not a directory"},
		"colon":            {func(w *world) { w.cfg.StateDir = func() (string, error) { return w.path("a:b"), nil } }, "can't be part of a PATH"},
		"not at this path": {func(w *world) { w.cfg.StateDir = func() (string, error) { return w.path("none"), nil } }, "no such file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.addPrograms()
			tt.prepare(w)
			m := New(w.cfg)
			defer m.Close()
			_, err := m.Programs()
			if err == nil || !strings.Contains(err.Error(), tt.want) || m.ProgramsError() == nil {
				t.Errorf("%v, want an error with %q", err, tt.want)
			}
		})
	}
}

// The environment that a script has activated comes before the settings of the server, and an error
// names the variable that names it.
func TestActivatedEnvironmentIsUsed(t *testing.T) {
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		w := newWorld(t)
		python := w.script("activated/bin/python", "exit 1")
		w.cfg.Python.Value = realPython()
		w.cfg.Env = append(w.cfg.Env, name+"="+w.path("activated"))
		m := New(w.cfg)
		m.useActivated()
		if env, err := m.current(); err != nil || env.python != python || env.setting != name {
			t.Errorf("%s: %+v, %v", name, env, err)
		}
	}
}

// Without any pip, uv does what it can.
func TestPipLineWithUV(t *testing.T) {
	w := newWorld(t)
	uv := w.script("bin/uv", "exit 1")
	w.cfg.Python.Value = w.fake()
	m := New(w.cfg)
	for args, want := range map[string]string{
		"install -r list.txt": "pip install --python PYTHON -r list.txt",
		"-q uninstall -y a":   "pip -q uninstall --python PYTHON -y a",
		"freeze":              "pip freeze --python PYTHON",
		"--version":           "pip --version",
		"download a":          `error: PYTHON has no pip, and uv has no "pip download"; run pip install pip first`,
	} {
		argv, lock, err := m.pipLine(patient(t), strings.Fields(args), func(string) {})
		if lock != nil {
			lock.Close()
		}
		got := "error: "
		if err != nil {
			got += err.Error()
		} else {
			got = strings.TrimPrefix(strings.Join(argv, " "), uv+" ")
		}
		if diff := cmp.Diff(strings.ReplaceAll(want, "PYTHON", w.cfg.Python.Value), got); diff != "" {
			t.Errorf("pip %s: -want +got\n%s", args, diff)
		}
	}
}
