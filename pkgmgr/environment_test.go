package pkgmgr

import (
	"archive/zip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// prefix makes an installation of the real Python: its program, and links to its library without
// some modules. Distributions package some modules separately; conda gives each environment an
// installation of its own.
func (w *world) prefix(name string, without ...string) (dir, python string) {
	w.t.Helper()
	about := strings.Split(ask(w.t, realPython(), `import os, sys, sysconfig
print(os.path.realpath(sys.executable)); print(sysconfig.get_path("stdlib")); print("lib/python%d.%d" % sys.version_info[:2])`), "\n")
	dir = w.path(name)
	lib := filepath.Join(dir, about[2])
	for _, made := range []string{filepath.Join(dir, "bin"), filepath.Join(lib, "site-packages")} {
		if err := os.MkdirAll(made, 0o777); err != nil {
			w.t.Fatal(err)
		}
	}
	program, err := os.ReadFile(about[0])
	if err != nil {
		w.t.Fatal(err)
	}
	python = w.write(name+"/bin/python3", string(program), 0o777)
	w.link("python3", name+"/bin/python")
	entries, err := os.ReadDir(about[1])
	if err != nil {
		w.t.Fatal(err)
	}
	without = append(without, "site-packages", "dist-packages", "EXTERNALLY-MANAGED", "__pycache__")
	for _, e := range entries {
		if !slices.Contains(without, e.Name()) {
			w.link(filepath.Join(about[1], e.Name()), filepath.Join(name, about[2], e.Name()))
		}
	}
	return dir, python
}

// addPip puts a pip into a prefix: a link to that of the real Python, which is compiled already,
// else the one that Python carries.
func (w *world) addPip(python string) {
	w.t.Helper()
	from := ask(w.t, realPython(), `import ensurepip, glob, importlib.util, os
found = importlib.util.find_spec("pip")
bundled = os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl")
print(found.submodule_search_locations[0] if found else (glob.glob(bundled) + glob.glob("/usr/share/python-wheels/pip-*.whl"))[0])`)
	purelib := ask(w.t, python, `import sysconfig; print(sysconfig.get_path("purelib"))`)
	if !strings.HasSuffix(from, ".whl") {
		err := os.MkdirAll(purelib, 0o777)
		if err == nil {
			err = os.Symlink(from, filepath.Join(purelib, "pip"))
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return
	}
	z, err := zip.OpenReader(from)
	if err != nil {
		w.t.Fatal(err)
	}
	defer z.Close()
	if err := os.CopyFS(purelib, z); err != nil {
		w.t.Fatal(err)
	}
}

// endOf runs an install to its end and returns its receipt and its notes in a line.
func endOf(t *testing.T, r *jobs.Registry, m *Manager, text string) string {
	t.Helper()
	j := start(t, r, m, text)
	rec := jobstest.End(t, j).Receipt
	return strings.Join(append([]string{rec.Text()}, rec.Notes...), "; ")
}

func TestInstallWithoutParts(t *testing.T) {
	tests := map[string]struct {
		without []string
		uv, pip bool // whether they exist
		want    string
	}{
		"no venv":      {[]string{"venv", "ensurepip"}, false, false, "has no module venv; install it (Debian, Ubuntu: apt install python3-venv), or install uv)"},
		"no ensurepip": {[]string{"ensurepip"}, false, false, "/.venv/bin/python has no pip, nor has the Python that it was made from; install uv, or pip for it (Debian, Ubuntu: apt install python3-pip))"},
		"uv instead":   {[]string{"venv", "ensurepip"}, true, false, "completed (installed spam 1.0)"},
		"pip instead":  {[]string{"ensurepip"}, false, true, "completed (installed spam 1.0)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("a Python without some of its parts takes long to make")
			}
			t.Parallel()
			w := newWorld(t)
			if tt.uv {
				w.addUV()
			}
			w.wheel("spam", "1.0", "1")
			_, python := w.prefix("python", tt.without...)
			if tt.pip {
				w.addPip(python)
			}
			w.script("bin/python3", `exec "`+python+`" "$@"`)
			if got := endOf(t, jobstest.Registry(t), New(w.cfg), "spam"); !strings.HasSuffix(got, tt.want) {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// Nothing is installed into a Python that the system manages (PEP 668), whichever installer
// refuses.
func TestInstallIntoManaged(t *testing.T) {
	for _, installer := range []string{"none", "pip", "uv"} {
		t.Run(installer, func(t *testing.T) {
			if testing.Short() && installer == "pip" {
				t.Skip("pip takes seconds")
			}
			t.Parallel()
			w := newWorld(t)
			w.wheel("spam", "1.0", "1")
			_, python := w.prefix("usr", "ensurepip")
			stdlib := ask(t, python, `import sysconfig; print(sysconfig.get_path("stdlib"))`)
			if err := os.WriteFile(filepath.Join(stdlib, "EXTERNALLY-MANAGED"), []byte("[externally-managed]\nError=ask the system\n"), 0o666); err != nil {
				t.Fatal(err)
			}
			switch installer {
			case "pip":
				w.addPip(python)
			case "uv":
				w.addUV()
			}
			w.cfg.Python.Value = python
			got := endOf(t, jobstest.Registry(t), New(w.cfg), "spam")
			want := python + " belongs to the system, which forbids installs into it (PEP 668); unset REPL_PYTHON, and an environment is made in REPL_VENV_DIR or the workspace)"
			if !strings.HasPrefix(got, "failed (") || !strings.HasSuffix(got, want) {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
}

func TestInstallIntoConda(t *testing.T) {
	for _, installer := range []string{"pip", "uv"} {
		t.Run(installer, func(t *testing.T) {
			if testing.Short() {
				t.Skip("an installation of Python takes long to make")
			}
			t.Parallel()
			w := newWorld(t)
			w.wheel("spam", "1.0", "1")
			dir, python := w.prefix("conda", "ensurepip", "venv")
			w.write("conda/conda-meta/history", "", 0o666)
			if installer == "pip" {
				w.addPip(python)
			} else {
				w.addUV()
			}
			w.cfg.CondaPrefix.Value = dir
			if got, want := endOf(t, jobstest.Registry(t), New(w.cfg), "spam"), "completed (installed spam 1.0)"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if got := ask(t, python, "import spam, sys; print(spam.value, sys.prefix)"); got != "1 "+dir {
				t.Errorf("imported: %s", got)
			}
		})
	}
}

// An environment that was deleted while the server ran is made again. If another one replaces it,
// Installed receives both directories.
func TestInstallAfterEnvironmentWasDeleted(t *testing.T) {
	w := newWorld(t)
	w.addUV()
	w.wheel("spam", "1.0", "1")
	r := jobstest.Registry(t)
	m := New(w.cfg)
	for range 2 {
		if got, want := endOf(t, r, m, "spam"), "completed (installed spam 1.0)"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := os.RemoveAll(w.venv()); err != nil {
			t.Fatal(err)
		}
	}
	w.cfg.VirtualEnv.Value = w.environment("active")
	w.cfg.Installed = func(_ context.Context, _ *Manager, ch Changes) []string {
		return []string{ch.Gone + " is gone, this is " + ch.Dir}
	}
	m = New(w.cfg)
	if _, err := m.Interpreter(patient(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.cfg.VirtualEnv.Value); err != nil {
		t.Fatal(err)
	}
	want := "completed (installed spam 1.0); " + w.cfg.VirtualEnv.Value + " is gone, this is " + w.venv()
	if got := endOf(t, r, m, "spam"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The changes of an install that was stopped are in its receipt, and Installed receives them.
func TestInstallIsStoppedHalfway(t *testing.T) {
	w := newWorld(t)
	uv := needtest.Program(t, "uv")
	w.wheel("spam", "1.0", "1")
	w.wheel("eggs", "1.0", "2")
	w.cfg.VirtualEnv.Value = w.environment("env")
	w.script("bin/uv", `for a; do last=$a; done
		[ "$last" = spam ] && exec "`+uv+`" "$@"
		"`+uv+`" "$@"; echo done so far; exec sleep 1000`)
	received := make(chan Changes, 3) // one for each install
	w.cfg.Installed = func(_ context.Context, _ *Manager, ch Changes) []string { received <- ch; return nil }
	r := jobstest.Registry(t)
	m := New(w.cfg)
	j := start(t, r, m, "eggs")
	jobstest.Prints(t, j, "done so far")
	j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
	rec := jobstest.End(t, j).Receipt
	if got, want := strings.Join(rec.Notes, "; "), "installed before it ended: eggs 1.0"; got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
	if ch := <-received; len(ch.Installed) != 1 || ch.Installed[0].Name != "eggs" {
		t.Errorf("Installed received %+v", ch)
	}
	if got, want := endOf(t, r, m, "spam"), "completed (installed spam 1.0)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// onFullDisk installs with an installer whose file system is full.
func onFullDisk(t *testing.T, w *world, r *jobs.Registry, python string) {
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Log("not tried, as it takes a mount namespace: a full disk")
		return
	}
	purelib := ask(t, python, `import sysconfig; print(sysconfig.get_path("purelib"))`)
	const mount = `mkdir -p "$TMPDIR/full"; mount -t tmpfs -o size=4k tmpfs "$TMPDIR/full"; mkdir "$TMPDIR/full/up" "$TMPDIR/full/work";` +
		`mount -t overlay -o "lowerdir=$0,upperdir=$TMPDIR/full/up,workdir=$TMPDIR/full/work" overlay "$0"`
	w.cfg.Command = func(argv, env []string, dir string) jobs.Runner {
		return command{append([]string{"unshare", "-m", "sh", "-ec", mount + `; exec "$@"`, purelib}, argv...), env, dir}
	}
	got, want := endOf(t, r, New(w.cfg), "late"), "the disk is full; free some space, of pip's or uv's cache for one)"
	if !strings.HasPrefix(got, "failed (exit ") || !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
