//go:build linux

package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/nstest"
	"asyncrepl/internal/test/pythontest"
)

// unneeded are parts of Python's library that these tests do without.
var unneeded = []string{"__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test", "tests", "tkinter", "turtledemo"}

// A snake is a Python that is installed in a world.
type snake struct {
	prefix, name string // the name of the program, as python3.11
	lib          string // the directory of the library that it is linked with, if there is one
}

func (s snake) bin() string  { return filepath.Join(s.prefix, "bin", s.name) }
func (s snake) site() string { return filepath.Join(s.prefix, "lib", s.name, "site-packages") }

// python copies the Python of the machine into a world.
func (w *world) python(t *testing.T, prefix string) snake {
	t.Helper()
	real := pythontest.Real(t)
	out := must.Get(exec.Command(real, "-c", "import sys, sysconfig; print(sysconfig.get_paths()['stdlib'], 'python%d.%d' % sys.version_info[:2], sys.base_prefix)").Output())(t)
	found := strings.Fields(string(out))
	s := snake{prefix, found[1], filepath.Join(prefix, "lib")}
	copyFile := func(from, to string, mode os.FileMode) {
		in := must.Get(os.Open(from))(t)
		defer in.Close()
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
		out := must.Get(os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode|0o600))(t)
		must.Get(io.Copy(out, in))(t)
		must.Do(t, out.Close())
	}
	copyFile(real, s.bin(), 0o755)
	for _, lib := range must.Get(filepath.Glob(filepath.Join(found[2], "lib", "libpython*.so*")))(t) {
		copyFile(lib, filepath.Join(prefix, "lib", filepath.Base(lib)), 0o755)
	}
	must.Do(t, filepath.WalkDir(found[0], func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (slices.Contains(unneeded, d.Name()) || strings.HasPrefix(d.Name(), "config-")) {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			rel := must.Get(filepath.Rel(found[0], path))(t)
			copyFile(path, filepath.Join(prefix, "lib", s.name, rel), 0o755)
		}
		return err
	}))
	must.Do(t, os.MkdirAll(s.site(), 0o755))
	return s
}

// again installs a Python of a world once more, by hard links.
func (s snake) again(t *testing.T, prefix string) snake {
	t.Helper()
	must.Do(t, filepath.WalkDir(s.prefix, func(path string, d fs.DirEntry, err error) error {
		if path == prefix {
			return fs.SkipDir
		}
		to := filepath.Join(prefix, strings.TrimPrefix(path, s.prefix))
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o755))
		}
		return os.Link(path, to)
	}))
	return snake{prefix, s.name, filepath.Join(prefix, "lib")}
}

// venv makes a virtual environment by a program of a world, as a person does outside.
func (w *world) venv(t *testing.T, s snake, dir string, program ...string) snake {
	t.Helper()
	w.own(t)
	cmd := exec.Command(program[0], append(program[1:], dir)...)
	cmd.Env = []string{"HOME=" + w.home(""), "PATH=/usr/bin:/bin", "LD_LIBRARY_PATH=" + s.lib, "UV_OFFLINE=1", "UV_NO_CACHE=1"}
	cmd.Dir = w.workspace("")
	if w.UID != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", program, err, out)
	}
	return snake{dir, s.name, s.lib}
}

// link makes a link of a world, and the directory that it is in.
func (w *world) link(t *testing.T, target, path string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.Symlink(target, path))
	return path
}

// Each Python that a person can have chosen starts inside, and imports a package of its environment.
func TestPythonStartsInside(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		first := w.python(t, w.path("built/first"))
		venv := func(of snake, dir string, options ...string) snake {
			t.Helper()
			return w.venv(t, of, dir, append([]string{of.bin(), "-m", "venv", "--without-pip"}, options...)...)
		}
		runs := func(name string, chosen string, env snake, change ...func(*sandbox.Config)) {
			t.Helper()
			w.write(t, filepath.Join(env.site(), "spam.py"), fmt.Sprintf("where = %q", name))
			w.own(t)
			c := w.config()
			c.Python = chosen
			for _, f := range change {
				f(&c)
			}
			w.prints(t, c, fmt.Sprintf("LD_LIBRARY_PATH=%s %s -c 'import json, spam; print(spam.where)'", env.lib, chosen), name)
			if under := strings.HasPrefix(env.prefix, w.workspace("")+"/"); !under {
				w.prints(t, c, "touch "+env.site()+"/x 2>/dev/null; ls "+env.site()+" | grep -v pycache", "spam.py")
			}
		}

		runs("one's own", first.bin(), first)
		runs("through a link", w.link(t, first.bin(), w.home("links/python3")), first)
		w.link(t, first.prefix, w.path("built/current"))
		runs("through a link of a directory", w.path("built/current/bin", first.name), first)
		hidden := first.again(t, w.home("hidden/python"))
		runs("in a hidden home", hidden.bin(), hidden)
		conda := first.again(t, w.path("conda/envs/x"))
		must.Do(t, os.Mkdir(filepath.Join(conda.prefix, "conda-meta"), 0o755))
		runs("conda", filepath.Join(conda.prefix, "bin", first.name), conda)

		runs("venv", w.path("outside/venv/bin/python"), venv(first, w.path("outside/venv")))
		runs("venv through a link", w.path("outside/linked/bin/python"), venv(snake{w.path("built/current"), first.name, first.lib}, w.path("outside/linked")))
		runs("venv of copies", w.path("outside/copies/bin/python"), venv(first, w.path("outside/copies"), "--copies"))
		runs("venv in a hidden home", w.home(".venvs/a/bin/python"), venv(hidden, w.home(".venvs/a")))
		moved := venv(first, w.path("outside/before"))
		must.Do(t, os.Rename(moved.prefix, w.path("outside/after")))
		runs("moved venv", w.path("outside/after/bin/python"), snake{w.path("outside/after"), first.name, first.lib})
		chain := venv(first, w.path("outside/chain"))
		must.Do(t, os.Remove(w.path("outside/chain/bin/python")))
		w.link(t, w.link(t, first.bin(), w.home("links/second")), w.path("outside/chain/bin/python"))
		runs("chain of links", w.path("outside/chain/bin/python"), chain)

		// A job can have made what is in the workspace, so its Python must be one that is read anyway.
		own := venv(first, w.workspace(".venv"))
		c := w.config()
		c.Python = w.workspace(".venv/bin/python")
		var bad *sandbox.PathError
		if box, err := sandbox.New(c); !errors.As(err, &bad) || bad.Needs != first.prefix {
			t.Errorf("got %v, %v, want that it needs %s", box, err, first.prefix)
		}
		must.Do(t, os.RemoveAll(w.path("state/sandbox")))
		runs("in the workspace, named", c.Python, own, func(c *sandbox.Config) { c.Read = []string{first.prefix} })
		runs("in the workspace, made with one on the PATH", c.Python, own, func(c *sandbox.Config) { c.Found = []string{first.bin()} })
		runs("in the workspace, on the PATH", c.Python, own, func(c *sandbox.Config) {
			c.Python, c.Programs = "", append(c.Programs, self)
			c.Found = []string{first.bin()}
		})
		copies := venv(first, w.workspace("copies"), "--copies")
		c.Python = w.workspace("copies/bin/python")
		if box, err := sandbox.New(c); !errors.As(err, &bad) || bad.Needs != first.prefix {
			t.Errorf("got %v, %v, want that it needs %s", box, err, first.prefix)
		}
		runs("copies in the workspace", c.Python, copies, func(c *sandbox.Config) { c.Read = []string{first.prefix} })
		if uv, err := exec.LookPath("uv"); err == nil {
			runs("uv", w.path("outside/uv/bin/python"), w.venv(t, first, w.path("outside/uv"), uv, "venv", "-q", "--python", first.bin()))
			managed := first.again(t, w.home(".local/share/uv/python/cpython-3.x.1-linux"))
			w.link(t, managed.prefix, w.home(".local/share/uv/python/cpython-3.x-linux"))
			of := snake{w.home(".local/share/uv/python/cpython-3.x-linux"), first.name, managed.lib}
			runs("managed by uv", w.workspace("uv/bin/python"), w.venv(t, managed, w.workspace("uv"), uv, "venv", "-q", "--python", of.bin()))
		}
	})
}

// Of a prefix that other things are in, only the Python is read.
func TestPythonAmongOtherThings(t *testing.T) {
	w := newWorld(t, os.Getuid())
	first := w.python(t, w.home(""))
	local := first.again(t, w.home(".local"))
	w.write(t, w.home("lib/other"), secret)
	w.write(t, w.home("bin/other"), secret)
	w.write(t, w.home(".local/share/other"), secret)
	for _, s := range []snake{first, local} {
		c := w.config()
		c.Python = s.bin()
		w.prints(t, c, fmt.Sprintf("LD_LIBRARY_PATH=%s %s -c 'import json; print(json.dumps(1))'; cat ~/lib/other ~/bin/other ~/.local/share/other 2>/dev/null; true", s.lib, s.bin()), "1")
	}
}

func TestPythonThatCannotBeRead(t *testing.T) {
	w := newWorld(t, os.Getuid())
	w.write(t, w.home(".ssh/id_ed25519"), secret)
	w.link(t, w.path("none"), w.workspace("broken/bin/python"))
	w.link(t, w.home(".ssh/id_ed25519"), w.workspace("stolen/bin/python"))
	w.link(t, "/bin/sh", w.workspace("home/bin/python"))
	w.write(t, w.workspace("home/pyvenv.cfg"), "home = "+w.home(".ssh")+"\n")
	w.write(t, w.workspace("gone/pyvenv.cfg"), "version = 3\nhome = "+w.path("none")+"\n")
	w.link(t, "/bin/sh", w.workspace("gone/bin/python"))
	w.write(t, w.home("bin/python"), "")
	w.write(t, w.home("pyvenv.cfg"), "")
	for path, why := range map[string]string{
		w.workspace(".venv/bin/python"):    "", // it will be made
		w.workspace("broken/bin/python"):   "", // the server explains it
		w.workspace("gone/bin/python"):     "",
		w.workspace("home/bin/python"):     "", // and nothing of it is read
		w.workspace("stolen/bin/python"):   "leads by a link from " + w.workspace("") + ", which jobs write, to " + w.home(".ssh/id_ed25519"),
		w.path("missing/venv/bin/python"):  "does not exist, and jobs can't make it",
		w.home("bin/python"):               "holds the home directory",
		w.path("state/sandbox/bin/python"): "does not exist",
	} {
		c := w.config()
		c.Python = path
		box, err := sandbox.New(c)
		if err == nil {
			box.Close()
		}
		var bad *sandbox.PathError
		if why == "" && err != nil || why != "" && (!errors.As(err, &bad) || bad.Role != sandbox.Python || bad.Needs != "" || !strings.Contains(bad.Why, why)) {
			t.Errorf("%s: got %v, want that it %s", path, err, why)
		}
		if err == nil {
			w.prints(t, c, "ls -A ~", ".cache\nwork")
		}
		// What the PATH names is left out.
		c.Python, c.Found = "", []string{path}
		w.prints(t, c, "cat ~/.ssh/* 2>/dev/null; ls -A ~", ".cache\nwork")
	}
}

// Programs that people have installed in their homes run inside.
func TestToolsOfAHome(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		script := func(path, text string) {
			w.write(t, path, text)
			must.Do(t, os.Chmod(path, 0o755))
		}
		first := w.python(t, w.home(".local/share/uv/python/cpython-3.x.1-linux"))
		w.venv(t, first, w.home(".local/share/uv/tools/ruff"), first.bin(), "-m", "venv", "--without-pip")
		w.write(t, filepath.Join(w.home(".local/share/uv/tools/ruff"), "lib", first.name, "site-packages/ruff.py"), "print('ruff')")
		script(w.home(".local/share/uv/tools/ruff/bin/ruff"), "#!"+w.home(".local/share/uv/tools/ruff/bin/python")+"\nimport ruff\n")
		w.link(t, w.home(".local/share/uv/tools/ruff/bin/ruff"), w.home(".local/bin/ruff"))
		script(w.home(".local/share/pipx/venvs/black/bin/black"), "#!/bin/sh\necho black\n")
		w.link(t, w.home(".local/share/pipx/venvs/black/bin/black"), w.home(".local/bin/black"))
		script(w.home(".nvm/versions/node/v1/bin/node"), "#!/bin/sh\nexec sh \"$@\"\n")
		script(w.home(".nvm/versions/node/v1/lib/node_modules/npm/bin/npm-cli.js"), "#!/usr/bin/env node\necho npm\n")
		w.link(t, "../lib/node_modules/npm/bin/npm-cli.js", w.home(".nvm/versions/node/v1/bin/npm"))
		script(w.home(".local/lib/node_modules/tsc/bin/tsc"), "#!/usr/bin/env node\necho tsc\n")
		w.link(t, "../lib/node_modules/tsc/bin/tsc", w.home(".local/bin/tsc"))
		script(w.home("bin/private"), "#!/bin/sh\necho private\n")
		shell := w.link(t, "/bin/sh", w.home("shells/zsh"))
		w.own(t)
		c := w.config()
		c.Shell = shell
		w.prints(t, c, fmt.Sprintf("export LD_LIBRARY_PATH=%s PATH=$HOME/.local/bin:$HOME/.nvm/versions/node/v1/bin:$HOME/bin:$PATH; ruff; black; npm; tsc; %s -c 'echo shell'; private 2>/dev/null; true", first.lib, shell),
			"ruff\nblack\nnpm\ntsc\nshell")
	})
}

// A prefix at the top of the file system, such as /srv, has other things in it, too.
func TestPythonInATopDirectory(t *testing.T) {
	w := newWorld(t, os.Getuid())
	c := w.config()
	c.Python = "/srv/bin/python3"
	cmd := w.command(t, launch{Config: c, Program: []string{"/bin/sh", "-c", "/srv/bin/python3; ls /srv /srv/lib /srv/lib/python3"}})
	nstest.Isolate(cmd, 0)
	cmd.Path = "/bin/sh"
	cmd.Args = append([]string{"sh", "-ec", `mount -t tmpfs none /srv
		mkdir -p /srv/bin /srv/lib/python3 /srv/lib/other /srv/project
		touch /srv/lib/python3/os.py /srv/lib/libpython3.so
		printf '#!/bin/sh\necho started\n' >/srv/bin/python3
		chmod +x /srv/bin/python3
		exec "$@"`, "sh"}, cmd.Args...)
	out, err := cmd.CombinedOutput()
	if want := "started\n/srv:\nbin\nlib\n\n/srv/lib:\nlibpython3.so\npython3\n\n/srv/lib/python3:\nos.py\n"; err != nil || string(out) != want {
		t.Errorf("got %v, %s, want %s", err, out, want)
	}
}

// An environment of the workspace that was made with a Python of the PATH starts again with it, and only
// with it.
func TestEnvironmentOfAFoundPython(t *testing.T) {
	w := newWorld(t, os.Getuid())
	found := w.path("other/bin/python3.12")
	w.write(t, found, "#!/bin/sh\necho found\n")
	must.Do(t, os.Chmod(found, 0o755))
	w.write(t, w.path("other/lib/python3.12/os.py"), "")
	c := w.config()
	c.Python = w.link(t, found, w.workspace(".venv/bin/python"))
	var bad *sandbox.PathError
	if _, err := sandbox.New(c); !errors.As(err, &bad) || bad.Needs != w.path("other") {
		t.Errorf("got %v", err)
	}
	c.Found = []string{found}
	w.prints(t, c, c.Python, "found")
}
