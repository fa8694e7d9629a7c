package pkgmgr

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/release/wheel"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
)

func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// realPython is the Python behind the python3 on the PATH.
var realPython = sync.OnceValue(func() string {
	out, err := exec.Command("python3", "-E", "-S", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		panic(fmt.Sprintf("these tests need a python3 on PATH: %v", err))
	}
	return strings.TrimSpace(string(out))
})

// A world is a workspace with a home and a PATH of its own. The configuration of this machine does
// not reach it.
type world struct {
	t    testing.TB
	root string
	cfg  Config
}

// newWorld returns a world whose PATH holds a python3 and no uv.
func newWorld(t testing.TB) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, root: root}
	for _, dir := range []string{"work space", "home", "bin", "wheels"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	w.cfg = Config{
		Workspace: w.path("work space"),
		Python:    Setting{Name: "REPL_PYTHON"}, VenvDir: Setting{Name: "REPL_VENV_DIR"},
		VirtualEnv: Setting{Name: "VIRTUAL_ENV"}, CondaPrefix: Setting{Name: "CONDA_PREFIX"},
		Path: []string{w.path("bin"), "/usr/bin/nowhere"},
		Env: []string{
			"PATH=" + w.path("bin") + ":/bin:/usr/bin", "HOME=" + w.path("home"), "TMPDIR=" + root, "PYTHONDONTWRITEBYTECODE=1",
			"PIP_CONFIG_FILE=/dev/null", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=" + w.path("wheels"),
			"UV_NO_CONFIG=1", "UV_OFFLINE=1", "UV_FIND_LINKS=" + w.path("wheels"), "UV_CACHE_DIR=" + w.path("home/uv"),
		},
		Owner:   processtest.Owner(t),
		Command: func(argv, env []string, dir string) jobs.Runner { return command{argv, env, dir} },
	}
	w.script("bin/python3", `exec "`+realPython()+`" "$@"`)
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.root, name) }

func (w *world) venv() string { return filepath.Join(w.cfg.Workspace, ".venv") }

func (w *world) write(name, text string, mode os.FileMode) string {
	w.t.Helper()
	path := w.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		w.t.Fatal(err)
	}
	processtest.WriteProgram(w.t, path, text)
	if err := os.Chmod(path, mode); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// script writes a program, in place of one that is there.
func (w *world) script(name, body string) string {
	w.t.Helper()
	os.Remove(w.path(name))
	return w.write(name, "#!/bin/sh\n"+body+"\n", 0o777)
}

func (w *world) link(target, name string) string {
	w.t.Helper()
	path := w.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// environment makes a real environment without pip.
func (w *world) environment(name string) string {
	w.t.Helper()
	dir := w.path(name)
	if out, err := exec.Command(realPython(), "-I", "-S", "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
		w.t.Fatalf("making an environment: %v\n%s", err, out)
	}
	return dir
}

// wheel puts a wheel with one module of one value into the world's only index.
func (w *world) wheel(name, version, value string, requires ...string) string {
	w.t.Helper()
	p := wheel.OfModule(name, version, "value = "+value+"\n")
	p.Metadata = "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	for _, r := range requires {
		p.Metadata += "Requires-Dist: " + r + "\n"
	}
	path, err := p.Save(w.path("wheels"))
	if err != nil {
		w.t.Fatal(err)
	}
	return path
}

// backend builds the wheel of a project with one module, in the project's own directory and without
// any other package.
const backend = `
import os, zipfile
def wheel(into, files):
    info = "NAME-VERSION.dist-info/"
    files = dict(files, **{
        info + "METADATA": "Metadata-Version: 2.1\nName: NAME\nVersion: VERSION\nProvides-Extra: more\nRequires-Dist: spam; extra == 'more'\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"})
    files[info + "RECORD"] = "".join(name + ",,\n" for name in files) + info + "RECORD,,\n"
    with zipfile.ZipFile(os.path.join(into, "NAME-VERSION-py3-none-any.whl"), "w") as z:
        for name in files:
            z.writestr(name, files[name])
    return "NAME-VERSION-py3-none-any.whl"
def build_wheel(into, config_settings=None, metadata_directory=None):
    BEFORE
    with open("NAME.py") as f:
        return wheel(into, {"NAME.py": f.read()})
def build_editable(into, config_settings=None, metadata_directory=None):
    return wheel(into, {"__editable__NAME.pth": os.getcwd() + "\n"})
`

// project writes a project with one module of one value. The given line of Python runs before its
// wheel is built.
func (w *world) project(dir, name, version, value, before string) string {
	w.t.Helper()
	fill := strings.NewReplacer("NAME", name, "VERSION", version, "BEFORE", cmp.Or(before, "pass"))
	w.write(dir+"/pyproject.toml", fill.Replace("[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n"+
		"[project]\nname = \"NAME\"\nversion = \"VERSION\"\n[project.optional-dependencies]\nmore = [\"spam\"]\n"), 0o666)
	w.write(dir+"/backend.py", fill.Replace(backend), 0o666)
	w.write(dir+"/"+name+".py", "value = "+value+"\n", 0o666)
	return w.path(dir)
}

// sdist writes the source archive of a project.
func (w *world) sdist(file, name, version, before string) string {
	w.t.Helper()
	top := name + "-" + version
	dir := w.project("sdists/"+top, name, version, "'"+name+"'", before)
	w.write("sdists/"+top+"/PKG-INFO", "Metadata-Version: 2.1\nName: "+name+"\nVersion: "+version+"\n", 0o666)
	if out, err := exec.Command("tar", "-C", filepath.Dir(dir), "-czf", w.path(file), top).CombinedOutput(); err != nil {
		w.t.Fatalf("packing %s: %v\n%s", top, err, out)
	}
	return w.path(file)
}

// with returns a Manager of the world whose commands have additional variables.
func (w *world) with(env ...string) *Manager {
	cfg := w.cfg
	cfg.Env = slices.Concat(cfg.Env, env)
	return New(cfg)
}

// addUV puts the uv of this machine on the world's PATH.
func (w *world) addUV() {
	w.t.Helper()
	uv := needtest.Program(w.t, "uv")
	w.link(uv, "bin/uv")
}

// patient is a context that bounds a wait that should be short.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ask runs Python code with an interpreter and returns what it prints.
func ask(t testing.TB, python, code string) string {
	t.Helper()
	out, err := exec.CommandContext(patient(t), python, "-c", code).CombinedOutput()
	if err != nil {
		t.Fatalf("%s -c %q: %v\n%s", python, code, err, out)
	}
	return strings.TrimSpace(string(out))
}

// command is a runner of a program on pipes.
type command struct {
	argv, env []string
	dir       string
}

func (c command) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Dir = c.env, c.dir
	cmd.Stdout = portWriter{p}
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = time.Minute
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotStarted, Detail: err.Error()}}
	}
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited, Code: cmd.ProcessState.ExitCode()}}
}

type portWriter struct{ p *jobs.Port }

func (w portWriter) Write(b []byte) (int, error) {
	w.p.Write(output.Stdout, b)
	return len(b), nil
}
