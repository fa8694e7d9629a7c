package pkgmgr

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDescribe tells what would be used without starting or making anything:
// every program here would leave a mark.
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
