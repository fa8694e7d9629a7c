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
