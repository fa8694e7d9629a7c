package pkgmgr

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/proc/proctest"
)

func TestInterpreterOrder(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"named", "active", "conda"} {
		w.environment(name)
	}
	w.environment("work space/.venv")
	all := w.cfg
	all.Owner = nil // what is there is found without a process
	all.Python, all.VenvDir = w.path("active/bin/python3"), w.path("named")
	all.VirtualEnv, all.CondaPrefix = w.path("active"), w.path("conda")

	tests := []struct { // each leaves out what the one before it found
		name, want string
		leaveOut   func(*Config)
	}{
		{"REPL_PYTHON", w.path("active/bin/python3"), func(*Config) {}},
		{"REPL_VENV_DIR", w.path("named/bin/python"), func(c *Config) { c.Python = "" }},
		{"REPL_VENV_DIR of the workspace", w.path("work space/.venv/bin/python"), func(c *Config) { c.VenvDir = ".venv" }},
		{"VIRTUAL_ENV", w.path("active/bin/python"), func(c *Config) { c.VenvDir = "" }},
		{"CONDA_PREFIX", w.path("conda/bin/python"), func(c *Config) { c.VirtualEnv = w.path("gone") }},
		{"workspace", w.venv() + "/bin/python", func(c *Config) { c.CondaPrefix = w.path("gone") }},
	}
	cfg := all
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.leaveOut(&cfg)
			m := New(cfg)
			if got := m.Bin(); got != filepath.Dir(tt.want) {
				t.Errorf("Bin before the first use = %q, want %q", got, filepath.Dir(tt.want))
			}
			got, err := m.Interpreter(patient(t))
			if err != nil || got != tt.want {
				t.Errorf("Interpreter = %q, %v; want %q", got, err, tt.want)
			}
			if got := m.Bin(); got != filepath.Dir(tt.want) {
				t.Errorf("Bin = %q, want %q", got, filepath.Dir(tt.want))
			}
		})
	}
}

func TestNamedInterpreterOfNoEnvironment(t *testing.T) {
	w := newWorld(t)
	w.cfg.Python = "python3"
	m := New(w.cfg)
	got, err := m.Interpreter(patient(t))
	if want := w.path("bin/python3"); err != nil || got != want {
		t.Errorf("Interpreter = %q, %v; want %q, as it is", got, err, want)
	}
	if got := m.Bin(); got != "" {
		t.Errorf("Bin = %q; the order of the PATH is to stay", got)
	}
	w.cfg.Path = nil
	w.cfg.Python = w.path("bin/python3")
	if got, want := New(w.cfg).Bin(), w.path("bin"); got != want {
		t.Errorf("Bin off the PATH = %q, want %q", got, want)
	}
}

func TestInterpreterMakesEnvironment(t *testing.T) {
	tests := map[string]func(*world){
		"in a new workspace":  func(*world) {},
		"in an empty .venv":   func(w *world) { os.Mkdir(w.venv(), 0o777) },
		"in one half made":    func(w *world) { w.write("work space/.venv/pyvenv.cfg", "home = /nowhere\n", 0o666) },
		"without uv's help":   func(w *world) { w.script("bin/uv", "echo no use; exit 2") },
		"past a shim":         func(w *world) { shim(w, "python3", realPython()) },
		"past modules nearby": func(w *world) { w.write("work space/venv.py", "raise SystemExit('mine')\n", 0o666) },
		"where it was named":  func(w *world) { w.cfg.VenvDir = "deep/down/env" },
		"with uv":             func(w *world) { w.addUV() },
		"with uv, half made": func(w *world) {
			w.addUV()
			w.write("work space/.venv/pyvenv.cfg", "home = /nowhere\n", 0o666)
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			prepare(w)
			dir := w.venv()
			if w.cfg.VenvDir != "" {
				dir = filepath.Join(w.cfg.Workspace, w.cfg.VenvDir)
			}
			m := New(w.cfg)
			if _, err := os.Lstat(filepath.Join(dir, "bin")); err == nil {
				t.Fatal("the environment is there before Python is asked for")
			}
			python, err := m.Interpreter(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(dir, "bin/python"); python != want {
				t.Errorf("Interpreter = %q, want %q", python, want)
			}
			if got := ask(t, python, "import sys; print(sys.prefix)"); got != dir {
				t.Errorf("sys.prefix = %q, want %q", got, dir)
			}
			if got, want := ask(t, python, "import sys; print(sys.base_prefix)"), ask(t, realPython(), "import sys; print(sys.base_prefix)"); got != want {
				t.Errorf("sys.base_prefix = %q, want %q", got, want)
			}
			if got := ask(t, python, "import importlib.util as u; print(u.find_spec('pip'))"); got != "None" {
				t.Errorf("pip is there: %s", got)
			}
			if got, err := os.ReadFile(filepath.Join(dir, ".gitignore")); strings.TrimSpace(string(got)) != "*" {
				t.Errorf(".gitignore = %q, %v", got, err)
			}
		})
	}
}

// shim puts a tool's shim in front of the PATH: a script in a directory of
// shims that becomes the tool by way of its manager. It returns the file with
// a line for each start.
func shim(w *world, tool, target string) (starts string) {
	starts = w.path("starts")
	manager := w.script("manager/libexec/pyenv", `echo "$@" >>"`+starts+`"
		case "$1" in
		which) test -n "`+target+`" && echo "`+target+`" ;;
		exec) echo "a word of the manager"; shift 2; exec "`+target+`" "$@" ;;
		esac`)
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
		target string // what the manager says; empty: nothing
		later  bool   // another uv is on the PATH
		want   string
	}{
		"followed":    {target: "tools/uv", want: "tools/uv"},
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
			got, ok := New(w.cfg).uv(patient(t), "")
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
	if got, ok := New(w.cfg).uv(patient(t), w.path("env")); !ok || got != own {
		t.Errorf("uv = %q, %t; want %q", got, ok, own)
	}
}

func TestInterpreterMakesOne(t *testing.T) {
	w := newWorld(t)
	starts := shim(w, "python3", realPython())
	servers := []*Manager{New(w.cfg), New(w.cfg)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { // waited for below
			python, err := servers[i%2].Interpreter(patient(t))
			if want := w.venv() + "/bin/python"; err != nil || python != want {
				t.Errorf("Interpreter = %q, %v; want %q", python, err, want)
			}
		})
	}
	wg.Wait()
	if got, _ := os.ReadFile(starts); strings.Count(string(got), "\n") > len(servers) {
		t.Errorf("callers of one manager did not wait for one another:\n%s", got)
	}
}

func TestInterpreterIsFoundAnew(t *testing.T) {
	w := newWorld(t)
	m := New(w.cfg)
	for range 2 {
		python, err := m.Interpreter(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		ask(t, python, "pass")
		if err := os.RemoveAll(w.venv()); err != nil {
			t.Fatal(err)
		}
	}
}

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
		"python3 too old by its word": {
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
		"python3 dies": {
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
			func(w *world) { w.cfg.Python = "python3.77" },
			[]string{"REPL_PYTHON", `"python3.77"`, "not on PATH"},
		},
		"REPL_PYTHON missing": {
			func(w *world) { w.cfg.Python = "/nowhere/python3" },
			[]string{"/nowhere/python3 is missing", "REPL_PYTHON"},
		},
		"REPL_PYTHON no program": {
			func(w *world) { w.cfg.Python = w.write("notes", "", 0o666) },
			[]string{"not a program", "REPL_PYTHON"},
		},
		"environment too old": {
			func(w *world) {
				w.cfg.VirtualEnv = w.path("env")
				w.script("env/bin/python", "exit 1")
				w.write("env/pyvenv.cfg", "home = /usr/bin\nversion = 3.8.19\n", 0o666)
			},
			[]string{"Python 3.8", "VIRTUAL_ENV", "3.9 is the oldest", "REPL_PYTHON", "make " /* it anew */},
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
		"a place that can't be": {
			func(w *world) { w.cfg.VenvDir = filepath.Join(w.write("notes", "", 0o666), "env") },
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

// tree lists the workspace.
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

// stuck makes python3 a program that tells its pid and goes on for ever.
func (w *world) stuck() (pid func() int) {
	file := w.path("pid")
	w.script("bin/python3", `trap '' INT; echo $$ >"`+file+`.new"; mv "`+file+`.new" "`+file+`"; while :; do sleep 1000; done`)
	return func() int {
		w.t.Helper()
		for ctx := patient(w.t); ctx.Err() == nil; <-time.After(time.Millisecond) {
			if b, err := os.ReadFile(file); err == nil {
				pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
				if err != nil {
					w.t.Fatal(err)
				}
				return pid
			}
		}
		w.t.Fatal("python3 was not started")
		return 0
	}
}

func TestInterpreterIsCancelled(t *testing.T) {
	w := newWorld(t)
	pid := w.stuck()
	m := New(w.cfg)
	ctx, cancel := context.WithCancelCause(patient(t))
	asked := make(chan error, 2) // the answers of both, however the test ends
	go func() {                  // ends with ctx
		_, err := m.Interpreter(ctx)
		asked <- err
	}()
	stuck := pid()
	waiting, giveUp := context.WithCancelCause(patient(t))
	giveUp(errGivenUp)
	if _, err := m.Interpreter(waiting); err != errGivenUp {
		t.Errorf("waiting for another's search: %v, want %v", err, errGivenUp)
	}
	cancel(errGivenUp)
	if err := <-asked; !strings.Contains(err.Error(), errGivenUp.Error()) {
		t.Errorf("Interpreter: %v, want %v", err, errGivenUp)
	}
	proctest.Gone(t, stuck)
	w.script("bin/python3", `exec "`+realPython()+`" "$@"`)
	if _, err := m.Interpreter(patient(t)); err != nil {
		t.Errorf("after a search that was given up: %v", err)
	}
}

type givenUp struct{}

func (givenUp) Error() string { return "given up" }

var errGivenUp = givenUp{}

func TestRunIsBounded(t *testing.T) {
	w := newWorld(t)
	pid := w.stuck()
	_, err := New(w.cfg).run(patient(t), 500*time.Millisecond, w.path("bin/python3"))
	if err == nil || !strings.Contains(err.Error(), "takes too long") {
		t.Errorf("run: %v, want that it takes too long", err)
	}
	proctest.Gone(t, pid())
}

func TestRunKeepsTheNewest(t *testing.T) {
	w := newWorld(t)
	out, err := New(w.cfg).run(patient(t), time.Minute, "/bin/sh", "-c", `yes | head -c 1000000; echo end`)
	if err != nil || lastLine(out) != "end" || len(out) > 2*keptOutput {
		t.Errorf("run: %d bytes, the last line %q, %v", len(out), lastLine(out), err)
	}
}
