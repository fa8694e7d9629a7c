package pkgmgr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInterpreterErrors(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		want    []string
	}{
		"no python3": {
			func(w *world) { w.cfg.Path = nil },
			[]string{"no python3 on PATH", "install Python 3.9", "REPL_PYTHON"},
		},
		"python3 too old by its name": {
			func(w *world) {
				os.Remove(w.path("bin/python3"))
				w.write("old/python3.8", "\x7fELF", 0o777)
				w.link(w.path("old/python3.8"), "bin/python3")
			},
			[]string{"Python 3.8", "3.9 is the oldest", "REPL_PYTHON"},
		},
		"python3 too old by its answer": {
			func(w *world) { w.script("bin/python3", "echo async-repl 2 7 /usr/bin/python2.7") },
			[]string{"Python 2.7", "3.9 is the oldest", "REPL_PYTHON"},
		},
		"python3 fails": {
			func(w *world) { w.script("bin/python3", "echo version 3.99 is not installed >&2; exit 1") },
			[]string{"exit 1: version 3.99 is not installed", "REPL_PYTHON"},
		},
		"python3 is something else": {
			func(w *world) { w.script("bin/python3", "echo hello") },
			[]string{"does not answer like a Python", "hello", "REPL_PYTHON"},
		},
		"python3 crashes": {
			func(w *world) { w.script("bin/python3", "kill -9 $$") },
			[]string{"SIGKILL", "REPL_PYTHON"},
		},
		"venv is missing": {
			func(w *world) {
				w.script("bin/real", `case "$*" in *venv*) echo "$0: No module named venv" >&2; exit 1 ;; esac; exec "`+realPython()+`" "$@"`)
				w.script("bin/python3", `case "$*" in *async-repl*) echo "async-repl 3 12 `+w.path("bin/real")+`" ;; esac`)
			},
			[]string{"no module venv", "apt install python3-venv", "install uv"},
		},
		"REPL_PYTHON not on PATH": {
			func(w *world) { w.cfg.Python.Value = "python3.77" },
			[]string{"REPL_PYTHON", `"python3.77"`, "not on PATH"},
		},
		"REPL_PYTHON missing": {
			func(w *world) { w.cfg.Python.Value = "/nowhere/python3" },
			[]string{"/nowhere/python3 is missing", "REPL_PYTHON"},
		},
		"REPL_PYTHON no program": {
			func(w *world) { w.cfg.Python.Value = w.write("notes", "", 0o666) },
			[]string{"not a program", "REPL_PYTHON"},
		},
		"environment too old": {
			func(w *world) {
				w.cfg.VirtualEnv.Value = w.path("env")
				w.script("env/bin/python", "exit 1")
				w.write("env/pyvenv.cfg", "home = /usr/bin\nversion = 3.8.19\n", 0o666)
			},
			[]string{"Python 3.8", "VIRTUAL_ENV", "3.9 is the oldest", "REPL_PYTHON", "or make "},
		},
		"environment of uv too old": {
			func(w *world) {
				w.script("work space/.venv/bin/python", "exit 1")
				w.write("work space/.venv/pyvenv.cfg", "home = /usr/bin\nversion_info = 3.7.0.final.0\n", 0o666)
			},
			[]string{"Python 3.7", "3.9 is the oldest", "REPL_PYTHON"},
		},
		"environment whose Python is gone": {
			func(w *world) { w.link("/nowhere/python3.12", "work space/.venv/bin/python") },
			[]string{"link to a Python that is gone", "remove", "REPL_PYTHON"},
		},
		"environment of Windows": {
			func(w *world) { w.write("work space/.venv/Scripts/python.exe", "", 0o777) },
			[]string{"environment of Windows", "REPL_VENV_DIR"},
		},
		"a file in its place": {
			func(w *world) { w.write("work space/.venv", "py312\n", 0o666) },
			[]string{"is a file", "REPL_VENV_DIR"},
		},
		"a link to nothing in its place": {
			func(w *world) { w.link("/nowhere/env", "work space/.venv") },
			[]string{"link to a directory that is gone", "REPL_VENV_DIR"},
		},
		"a directory that can't be made": {
			func(w *world) { w.cfg.VenvDir.Value = filepath.Join(w.write("notes", "", 0o666), "env") },
			[]string{"not a directory", "REPL_VENV_DIR", "REPL_PYTHON"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tt.prepare(w)
			before := w.tree()
			python, err := New(w.cfg).Interpreter(patient(t))
			if err == nil {
				t.Fatalf("Interpreter = %q, want an error", python)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			if after := w.tree(); after != before {
				t.Errorf("files before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// tree returns the paths of the workspace, one a line.
func (w *world) tree() string {
	var b strings.Builder
	err := filepath.WalkDir(w.cfg.Workspace, func(path string, _ os.DirEntry, err error) error {
		b.WriteString(path + "\n")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// shim puts a tool's shim in front of the PATH: a script in a directory of shims that becomes the
// tool by way of its manager. It returns a file that gets a line for each start.
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
		target string // the program that the shim runs; empty: none
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
