package pkgmgr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shim puts a tool's shim in front of the PATH: a script in a directory of
// shims that becomes the tool by way of its manager. It returns the file with
// a line for each start.
func shim(w *world, tool, target string) (starts string) {
	starts = w.path("starts")
	manager := w.script("manager/libexec/pyenv", `echo "$@" >>"`+starts+`"
		test -n "`+target+`" || exit 127
		echo "a word of the manager"; shift 2; exec "`+target+`" "$@"`)
	w.script("manager/shims/"+tool, `program="${0##*/}"
		exec "`+manager+`" exec "$program" "$@"`)
	w.cfg.Path = append([]string{w.path("manager/shims")}, w.cfg.Path...)
	return starts
}

func TestShimIsFollowedOnce(t *testing.T) {
	w := newWorld(t)
	starts := shim(w, "python3", realPython())
	python, err := New(w.cfg).Interpreter(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	target, err := filepath.EvalSymlinks(python)
	want, err2 := filepath.EvalSymlinks(realPython())
	if err != nil || err2 != nil || target != want {
		t.Errorf("the environment's Python is %q, want %q", target, want)
	}
	if _, err := New(w.cfg).Interpreter(patient(t)); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(starts); strings.Count(string(got), "\n") != 1 {
		t.Errorf("the shim was started more than once:\n%s", got)
	}
}

func TestUVBehindShim(t *testing.T) {
	tests := map[string]struct {
		target string // what stands behind it; empty: nothing
		later  bool   // another uv is on the PATH
		want   string
	}{
		"used":        {target: "tools/uv", later: true, want: "manager/shims/uv"},
		"none behind": {want: ""},
		"passed over": {later: true, want: "bin/uv"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.script("tools/uv", "exit 0")
			target := tt.target
			if target != "" {
				target = w.path(target)
			}
			if tt.later {
				w.script("bin/uv", "exit 0")
			}
			shim(w, "uv", target)
			got, ok := New(w.cfg).uv(patient(t), environment{})
			want := tt.want
			if want != "" {
				want = w.path(want)
			}
			if ok != (want != "") || ok && got != want {
				t.Errorf("uv = %q, %t; want %q", got, ok, want)
			}
		})
	}
}

func TestUVOfEnvironmentComesFirst(t *testing.T) {
	w := newWorld(t)
	w.script("bin/uv", "exit 0")
	own := w.script("env/bin/uv", "exit 0")
	if got, ok := New(w.cfg).uv(patient(t), environment{dir: w.path("env")}); !ok || got != own {
		t.Errorf("uv = %q, %t; want %q", got, ok, own)
	}
}

func TestPyenvIsRead(t *testing.T) {
	const installed = "3.77.0"
	tests := map[string]struct {
		prepare func(*world)
		asked   bool // pyenv must be
	}{
		"the variable": {func(w *world) { w.cfg.Env = append(w.cfg.Env, "PYENV_VERSION="+installed+":3.78") }, false},
		"the variable leads": {func(w *world) {
			w.cfg.Env = append(w.cfg.Env, "PYENV_VERSION=3.78")
			w.choose(installed, "work space/.python-version")
		}, true},
		"the workspace": {func(w *world) { w.choose(installed+"\n3.78\n", "work space/.python-version") }, false},
		"the workspace leads": {func(w *world) {
			w.choose("3.78", "work space/.python-version")
			w.choose(installed, ".python-version")
		}, true},
		"above the workspace":        {func(w *world) { w.choose(installed, ".python-version") }, false},
		"everywhere":                 {func(w *world) { w.choose(installed, "manager/version") }, false},
		"nowhere":                    {func(*world) {}, true},
		"a prefix":                   {func(w *world) { w.choose("3.77", "manager/version") }, true},
		"the system's":               {func(w *world) { w.choose("system", "manager/version") }, true},
		"a path":                     {func(w *world) { w.choose("../versions/"+installed, "manager/version") }, true},
		"a directory to look in":     {func(w *world) { w.cfg.Env = append(w.cfg.Env, "PYENV_DIR=/", "PYENV_VERSION="+installed) }, true},
		"a variable that was unset":  {func(w *world) { w.cfg.Env = append(w.cfg.Env, "PYENV_VERSION="+installed, "PYENV_VERSION=") }, true},
		"a comment before a version": {func(w *world) { w.choose("# "+installed, "manager/version") }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			starts := shim(w, "python3", realPython())
			python := w.link(realPython(), "manager/versions/"+installed+"/bin/python3")
			tt.prepare(w)
			found, err := New(w.cfg).base(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			want := python
			if tt.asked {
				want = realPython()
			}
			if found.path != want {
				t.Errorf("python3 leads to %q, want %q", found.path, want)
			}
			if asked := exists(starts); asked != tt.asked {
				t.Errorf("pyenv was asked: %t, want %t", asked, tt.asked)
			}
		})
	}
}

// choose writes a file that tells pyenv a version.
func (w *world) choose(version, file string) { w.write(file, version+"\n", 0o666) }
