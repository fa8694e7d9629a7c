package pkgmgr

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/pkgmgr/installer"
)

func TestInterpreterOrder(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"named", "active", "conda"} {
		w.environment(name)
	}
	w.environment("work space/.venv")
	all := w.cfg
	all.Owner = nil // an existing environment is found without starting a process
	all.Python.Value, all.VenvDir.Value = w.path("active/bin/python3"), w.path("named")
	all.VirtualEnv.Value, all.CondaPrefix.Value = w.path("active"), w.path("conda")

	tests := []struct { // each drops the setting by which the one before it found its Python
		name, want string
		leaveOut   func(*Config)
	}{
		{"REPL_PYTHON", w.path("active/bin/python3"), func(*Config) {}},
		{"REPL_VENV_DIR", w.path("named/bin/python"), func(c *Config) { c.Python.Value = "" }},
		{"REPL_VENV_DIR of the workspace", w.path("work space/.venv/bin/python"), func(c *Config) { c.VenvDir.Value = ".venv" }},
		{"VIRTUAL_ENV", w.path("active/bin/python"), func(c *Config) { c.VenvDir.Value = "" }},
		{"CONDA_PREFIX", w.path("conda/bin/python"), func(c *Config) { c.VirtualEnv.Value = w.path("gone") }},
		{"workspace", w.venv() + "/bin/python", func(c *Config) { c.CondaPrefix.Value = w.path("gone") }},
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
	w.cfg.Python.Value = "python3"
	m := New(w.cfg)
	got, err := m.Interpreter(patient(t))
	if want := w.path("bin/python3"); err != nil || got != want {
		t.Errorf("Interpreter = %q, %v; want %q, as it is", got, err, want)
	}
	if got := m.Bin(); got != "" {
		t.Errorf("Bin = %q, want none: the order of the PATH must stay", got)
	}
	w.cfg.Path = nil
	w.cfg.Python.Value = w.path("bin/python3")
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
		"where it was named":  func(w *world) { w.cfg.VenvDir.Value = "deep/down/env" },
		"with uv":             func(w *world) { w.addUV() },
		"with uv, half made": func(w *world) {
			w.addUV()
			w.write("work space/.venv/pyvenv.cfg", "home = /nowhere\n", 0o666)
		},
	}
	base := ask(t, realPython(), "import sys; print(sys.base_prefix)")
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "in a new workspace" && name != "with uv" {
				t.Skip("to make an environment takes long: a short run makes two")
			}
			t.Parallel()
			w := newWorld(t)
			prepare(w)
			dir := w.venv()
			if w.cfg.VenvDir.Value != "" {
				dir = filepath.Join(w.cfg.Workspace, w.cfg.VenvDir.Value)
			}
			m := New(w.cfg)
			if _, err := os.Lstat(filepath.Join(dir, "bin")); err == nil {
				t.Fatal("the environment exists before Python is asked for")
			}
			python, err := m.Interpreter(patient(t))
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(dir, "bin/python"); python != want {
				t.Errorf("Interpreter = %q, want %q", python, want)
			}
			if got, want := ask(t, python, "import sys; print(sys.prefix); print(sys.base_prefix)"), dir+"\n"+base; got != want {
				t.Errorf("its prefixes are %q, want %q", got, want)
			}
			if got, err := os.ReadFile(filepath.Join(dir, ".gitignore")); strings.TrimSpace(string(got)) != "*" {
				t.Errorf(".gitignore = %q, %v", got, err)
			}
		})
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
		t.Errorf("callers of one Manager did not take turns:\n%s", got)
	}
}

func TestInterpreterIsFoundAgain(t *testing.T) {
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

// stuck makes python3 a program that never exits. pid waits until it has written its pid.
func (w *world) stuck() (pid func() int) {
	file := w.path("pid")
	w.script("bin/python3", `trap '' INT; echo $$ >"`+file+`.new"; mv "`+file+`.new" "`+file+`"; while :; do sleep 1000; done`)
	return func() (pid int) {
		w.t.Helper()
		polltest.Check(w.t, func() error {
			b, err := os.ReadFile(file)
			if err == nil {
				pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
			}
			return err
		})
		return pid
	}
}

func TestInterpreterIsCancelled(t *testing.T) {
	w := newWorld(t)
	pid := w.stuck()
	m := New(w.cfg)
	asks := func() (answer <-chan error, cancel context.CancelCauseFunc) {
		ctx, cancel := context.WithCancelCause(patient(t))
		asked := make(chan error, 1) // the answer, however the test ends
		go func() {                  // ends with ctx
			_, err := m.Interpreter(ctx)
			asked <- err
		}()
		return asked, cancel
	}
	asked, cancel := asks()
	stuck := pid()
	waited, stopWaiting := asks()
	stopWaiting(errNotNeeded)
	if err := <-waited; err != errNotNeeded {
		t.Errorf("waiting for another caller's search: %v, want %v", err, errNotNeeded)
	}
	cancel(errNotNeeded)
	if err := <-asked; !strings.Contains(err.Error(), errNotNeeded.Error()) {
		t.Errorf("Interpreter: %v, want %v", err, errNotNeeded)
	}
	processtest.Gone(t, stuck)
	w.script("bin/python3", `exec "`+realPython()+`" "$@"`)
	if _, err := m.Interpreter(patient(t)); err != nil {
		t.Errorf("after a search that was cancelled: %v", err)
	}
}

var errNotNeeded = errors.New("not needed any more")

func TestRunIsBounded(t *testing.T) {
	w := newWorld(t)
	out, err := New(w.cfg).run(patient(t), 100*time.Millisecond, "/bin/sh", "-c", `echo $$; exec sleep 1000`)
	if err == nil || !strings.Contains(err.Error(), "takes too long") {
		t.Errorf("run: %v, want that it takes too long", err)
	}
	if pid, err := strconv.Atoi(installer.LastLine(string(out))); err == nil { // on a busy machine it may be stopped before it prints its pid
		processtest.Gone(t, pid)
	}
}

func TestRunKeepsTheNewest(t *testing.T) {
	w := newWorld(t)
	out, err := New(w.cfg).run(patient(t), time.Minute, "/bin/sh", "-c", `yes | head -c 1000000; echo end`)
	if err != nil || installer.LastLine(string(out)) != "end" || len(out) > 2*keptOutput {
		t.Errorf("run: %d bytes, the last line %q, %v", len(out), installer.LastLine(string(out)), err)
	}
}

func TestRunNamesWhatCannotStart(t *testing.T) {
	w := newWorld(t)
	path := w.write("bin/data", "no program", 0o777)
	m := New(w.cfg)
	for _, m.inProgram = range []bool{false, true} {
		_, err := m.run(patient(t), time.Minute, path)
		if want := "starting " + path + ": exec format error"; err == nil || err.Error() != want {
			t.Errorf("in the program pip: %t: %v, want %s", m.inProgram, err, want)
		}
	}
}

// An interrupt can reach a child before the program pip knows of it.
func TestRunIsInterrupted(t *testing.T) {
	w := newWorld(t)
	m := New(w.cfg)
	for _, m.inProgram = range []bool{false, true} {
		if _, err := m.run(patient(t), time.Minute, "/bin/sh", "-c", "kill -INT $$"); errors.Is(err, ErrInterrupted) != m.inProgram {
			t.Errorf("in the program pip: %t: %v", m.inProgram, err)
		}
	}
}

// Describe says which Python would be used, and starts and makes nothing: each program here would
// leave a file.
func TestDescribe(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(*world)
		want    func(*world) Description
		err     string
	}{
		"nothing yet": {
			func(w *world) {
				os.Remove(w.path("bin/python3"))
				w.link(w.write("real/python3.12", "\x7fELF", 0o777), "bin/python3")
			},
			func(w *world) Description {
				return Description{Python: w.venv() + "/bin/python", Dir: w.venv(), Base: w.path("bin/python3"), Version: "3.12"}
			}, "",
		},
		"no python3": {
			func(w *world) { os.Remove(w.path("bin/python3")) },
			func(w *world) Description { return Description{Python: w.venv() + "/bin/python", Dir: w.venv()} }, "",
		},
		"an environment, and uv": {
			func(w *world) {
				w.script("work space/.venv/bin/python", "touch started")
				w.write("work space/.venv/pyvenv.cfg", "version = 3.13.1\n", 0o666)
				w.script("bin/uv", "touch started")
			},
			func(w *world) Description {
				return Description{Python: w.venv() + "/bin/python", Dir: w.venv(), There: true, Version: "3.13", UV: w.path("bin/uv")}
			}, "",
		},
		"a named one": {
			func(w *world) { w.cfg.Python.Value = w.script("mine/python", "touch started") },
			func(w *world) Description {
				return Description{Python: w.path("mine/python"), Setting: "REPL_PYTHON", There: true}
			}, "",
		},
		"a named one that is not there": {
			func(w *world) { w.cfg.Python.Value = "/nowhere/python3" }, nil, "/nowhere/python3 is missing",
		},
		"an environment whose Python is gone": {
			func(w *world) { w.link("/nowhere/python3.12", "work space/.venv/bin/python") }, nil, "link to a Python that is gone",
		},
		"an environment too old": {
			func(w *world) {
				w.script("work space/.venv/bin/python", "touch started")
				w.write("work space/.venv/pyvenv.cfg", "version = 3.8.1\n", 0o666)
			}, nil, "3.9 is the oldest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cfg.Path = []string{w.path("bin")}
			tt.prepare(w)
			before := w.tree()
			got, err := New(w.cfg).Describe()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%+v, %v; want an error with %q", got, err, tt.err)
				}
			} else if d := cmp.Diff(tt.want(w), got); err != nil || d != "" {
				t.Errorf("%v\n%s", err, d)
			}
			if after := w.tree(); after != before {
				t.Errorf("files before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}
