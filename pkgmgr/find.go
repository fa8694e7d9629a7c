package pkgmgr

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The oldest Python that the worker runs on.
const (
	minMajor = 3
	minMinor = 9
)

// probeLimit bounds the commands that only ask something. A shim on a busy
// machine takes a second or two.
const probeLimit = 30 * time.Second

// An interpreter is a Python that was found.
type interpreter struct {
	path         string
	major, minor int
}

func (i interpreter) tooOld() bool {
	return i.major < minMajor || i.major == minMajor && i.minor < minMinor
}

// use checks the environment that is there, but not while another server is
// making it.
func (m *Manager) use(ctx context.Context, pl place) error {
	if pl.dir != "" {
		if unlock, err := m.lockDir(ctx, pl.dir, nil); err == nil {
			defer unlock()
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.check(ctx, pl)
}

// check looks whether the environment that is there can be used. It starts a
// process only where the files don't tell the version.
func (m *Manager) check(ctx context.Context, pl place) error {
	remedy := "set REPL_PYTHON to an interpreter that works"
	if pl.dir != "" {
		remedy = fmt.Sprintf("remove %s if it is of no more use, or %s", pl.dir, remedy)
	}
	if _, err := os.Stat(pl.python); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("finding Python: %s is missing, or a link to a Python that is gone%s; %s", pl.python, pl.by(), remedy)
	}
	if !isProgram(pl.python) {
		return fmt.Errorf("finding Python: %s is not a program that can be run%s; %s", pl.python, pl.by(), remedy)
	}
	found, ok := recorded(pl.python)
	if !ok {
		var err error
		if found, err = m.probe(ctx, pl.python); err != nil {
			return fmt.Errorf("finding Python: %v%s; %s", err, pl.by(), remedy)
		}
	}
	if found.tooOld() {
		return fmt.Errorf("finding Python: %s is Python %d.%d%s, and %d.%d is the oldest that will do; set REPL_PYTHON to a newer one%s",
			pl.python, found.major, found.minor, pl.by(), minMajor, minMinor, pl.orRemake())
	}
	return nil
}

// by tells who named the place.
func (pl place) by() string {
	if pl.setting == "" {
		return ""
	}
	return " (named by " + pl.setting + ")"
}

// orRemake is the other remedy for an environment whose Python is too old.
func (pl place) orRemake() string {
	if pl.dir == "" {
		return ""
	}
	return ", or make " + pl.dir + " anew with one"
}

// base returns the python3 that a new environment is made from: the one that
// the PATH leads to, past any shim.
func (m *Manager) base(ctx context.Context) (interpreter, error) {
	const remedy = "install Python 3.9 or newer, or set REPL_PYTHON to one"
	path, ok := m.python3()
	if !ok {
		return interpreter{}, fmt.Errorf("there is no python3 on PATH; %s", remedy)
	}
	found, ok := recorded(path)
	if !ok {

		var err error
		if found, err = m.probe(ctx, path); err != nil {
			return interpreter{}, fmt.Errorf("%v; %s", err, remedy)
		}
	}
	if found.tooOld() {
		return interpreter{}, fmt.Errorf("%s is Python %d.%d, and %d.%d is the oldest that will do; %s",
			path, found.major, found.minor, minMajor, minMinor, remedy)
	}
	return found, nil
}

// probeCode is read by every Python since 2.6. The word in front sets the answer
// apart from what a shim or a site's start-up file prints.
const probeCode = `import sys; print("async-repl %d %d %s" % (sys.version_info[0], sys.version_info[1], sys.executable))`

var probeAnswer = pattern(`(?m)^async-repl (\d+) (\d+) (.+)$`)

// probe asks the Python at path, or the one that a shim there leads to, for its
// version and its own path. Nothing of the workspace or the user's site is
// imported.
func (m *Manager) probe(ctx context.Context, path string) (interpreter, error) {
	out, err := m.run(ctx, probeLimit, path, "-E", "-s", "-S", "-c", probeCode)
	if err != nil {
		return interpreter{}, err
	}
	answer := probeAnswer().FindSubmatch(out)
	if answer == nil {
		return interpreter{}, fmt.Errorf("%s does not answer like a Python: %q", path, clip(lastLine(out), 80))
	}
	major, _ := strconv.Atoi(string(answer[1]))
	minor, _ := strconv.Atoi(string(answer[2]))
	found := interpreter{path: strings.TrimSpace(string(answer[3])), major: major, minor: minor}
	if !filepath.IsAbs(found.path) {
		found.path = path
	}
	return found, nil
}

// interpreterName is what interpreters are called: python3.12, python3.13t,
// pypy3.10.
var interpreterName = pattern(`^(?:python|pypy)(\d)\.(\d+)[a-z]*$`)

// recorded tells the version of the Python at path from what its environment
// recorded or what the program is called, without running it (15 ms and more).
func recorded(path string) (interpreter, bool) {
	if major, minor, ok := recordedIn(filepath.Join(filepath.Dir(filepath.Dir(path)), "pyvenv.cfg")); ok {
		return interpreter{path, major, minor}, true
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil || isScript(target) {
		return interpreter{}, false
	}
	name := interpreterName().FindStringSubmatch(filepath.Base(target))
	if name == nil {
		return interpreter{}, false
	}
	major, _ := strconv.Atoi(name[1])
	minor, _ := strconv.Atoi(name[2])
	return interpreter{path, major, minor}, true
}

var dotted = pattern(`^(\d+)\.(\d+)`)

// recordedIn reads the version from a pyvenv.cfg: "version" is venv's word,
// "version_info" uv's and virtualenv's.
func recordedIn(cfg string) (major, minor int, ok bool) {
	values := configured(cfg)
	for _, key := range []string{"version", "version_info"} {
		if v := dotted().FindStringSubmatch(values[key]); v != nil {
			major, _ = strconv.Atoi(v[1])
			minor, _ = strconv.Atoi(v[2])
			return major, minor, true
		}
	}
	return 0, 0, false
}

// madeFrom returns the Python that an environment's was made from.
func madeFrom(python string) (string, bool) {
	home := configured(filepath.Join(filepath.Dir(filepath.Dir(python)), "pyvenv.cfg"))["home"]
	base := filepath.Join(home, "python3")
	return base, filepath.IsAbs(home) && isProgram(base)
}

// configured reads a pyvenv.cfg.
func configured(cfg string) map[string]string {
	f, err := os.Open(cfg)
	if err != nil {
		return nil
	}
	defer f.Close()
	values := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return values
}

// isEnvironment tells whether dir is the root of a virtual or conda environment.
func isEnvironment(dir string) bool {
	return exists(filepath.Join(dir, "pyvenv.cfg")) || exists(filepath.Join(dir, "conda-meta"))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// python3 returns the python3 on the PATH. In front of it can be a shim of a version manager: a program
// that takes 100 ms to find its Python and becomes it. If the files of pyenv name that Python outright,
// it is returned instead; else the shim is asked, once for each environment that is made from it.
func (m *Manager) python3() (string, bool) {
	shim, ok := m.lookPath("python3")
	if root, dir := filepath.Split(filepath.Dir(shim)); ok && dir == "shims" && m.getenv("PYENV_DIR") == "" {
		if python := filepath.Join(root, "versions", m.pyenvVersion(root), "bin", "python3"); isProgram(python) {
			return python, true
		}
	}
	return shim, ok
}

// pyenvVersion returns the version that pyenv prefers in the workspace, as it is written.
func (m *Manager) pyenvVersion(root string) string {
	files := []string{filepath.Join(root, "version")}
	for dir := m.cfg.Workspace; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		files = slices.Insert(files, len(files)-1, filepath.Join(dir, ".python-version"))
	}
	wanted := strings.ReplaceAll(m.getenv("PYENV_VERSION"), ":", " ")
	for _, file := range files {
		if strings.TrimSpace(wanted) == "" {
			b, _ := os.ReadFile(file)
			wanted = string(b)
		}
	}
	if words := strings.Fields(wanted); len(words) > 0 && filepath.IsLocal(words[0]) {
		return words[0]
	}
	return "none"
}

// isScript reports whether the file at path is a script and not a binary.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "#!"
}

// uv returns the path of uv, if there is one: the environment's own, else the first on the PATH. A
// version manager's shim counts only if it runs, because a shim can be there without a uv behind it.
func (m *Manager) uv(ctx context.Context, env string) (string, bool) {
	if own := filepath.Join(env, "bin", "uv"); env != "" && isProgram(own) {
		return own, true
	}
	for _, dir := range m.cfg.Path {
		path := filepath.Join(dir, "uv")
		if !filepath.IsAbs(dir) || !isProgram(path) {
			continue
		}
		if filepath.Base(dir) != "shims" {
			return path, true
		}
		if _, err := m.run(ctx, probeLimit, path, "--version"); err == nil {
			return path, true
		}
		m.log.Debug("no uv behind shim", "shim", path)
	}
	return "", false
}

// getenv returns a variable of the commands' environment.
func (m *Manager) getenv(name string) string {
	value := ""
	for _, kv := range m.cfg.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v // the last one counts
		}
	}
	return value
}
