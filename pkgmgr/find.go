package pkgmgr

import (
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

	"asyncrepl/internal/text/pattern"
	"asyncrepl/internal/text/view"
	"asyncrepl/pkgmgr/installer"
)

// An environment is a Python and the directory that it installs into. Functions that find, make or
// fill one take it as a value, because a Manager can replace its environment.
type environment struct {
	python  string // the path of the interpreter
	dir     string // the root directory; empty if a named interpreter belongs to no environment
	setting string // the name of the setting that chose it; empty: the workspace's own
	exists  bool   // a file is at python, or a link whose target can be gone
}

// locate returns the first environment that exists, or else the one to make. It only checks whether
// files exist. A setting that can't be used is not skipped: its error comes from check or make.
func (m *Manager) locate() (environment, error) {
	if m.cfg.Python.Value != "" {
		return m.named()
	}
	if m.cfg.VenvDir.Value != "" {
		return environmentIn(m.abs(m.cfg.VenvDir.Value), m.cfg.VenvDir.Name), nil
	}
	for _, active := range []Setting{m.cfg.VirtualEnv, m.cfg.CondaPrefix} {
		if active.Value == "" {
			continue
		}
		if env := environmentIn(m.abs(active.Value), active.Name); env.exists {
			return env, nil
		}
	}
	return environmentIn(filepath.Join(m.cfg.Workspace, ".venv"), ""), nil
}

// named returns the environment of the named interpreter.
func (m *Manager) named() (environment, error) {
	python := m.cfg.Python.Value
	if filepath.Base(python) == python {
		var ok bool
		if python, ok = m.lookPath(python); !ok {
			return environment{}, fmt.Errorf("finding Python: %s is %q, which is not on PATH; set it to the path of an interpreter", m.cfg.Python.Name, m.cfg.Python.Value)
		}
	}
	env := environment{setting: m.cfg.Python.Name, python: m.abs(python), exists: true}
	if dir := filepath.Dir(filepath.Dir(env.python)); exists(filepath.Join(dir, "pyvenv.cfg")) || exists(filepath.Join(dir, "conda-meta")) {
		env.dir = dir
	}
	return env, nil
}

// environmentIn returns the environment in a directory.
func environmentIn(dir, setting string) environment {
	bin := filepath.Join(dir, "bin")
	for _, name := range []string{"python", "python3"} {
		if python := filepath.Join(bin, name); exists(python) {
			return environment{setting: setting, dir: dir, python: python, exists: true}
		}
	}
	return environment{setting: setting, dir: dir, python: filepath.Join(bin, "python")}
}

// The oldest Python that the worker runs on.
const (
	minMajor = 3
	minMinor = 9
)

// probeLimit bounds the commands that only ask something. A shim on a busy machine takes a second
// or two.
const probeLimit = 30 * time.Second

// An interpreter is a Python whose version is known.
type interpreter struct {
	path         string
	major, minor int
}

func (i interpreter) tooOld() bool {
	return i.major < minMajor || i.major == minMajor && i.minor < minMinor
}

// checkMade is check, but waits while another server makes the environment.
func (m *Manager) checkMade(ctx context.Context, env environment) error {
	if env.dir != "" {
		if lock, err := m.lockDir(ctx, env.dir, nil); err == nil {
			defer lock.Close()
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.check(ctx, env)
}

// check returns an error if an existing environment can't be used. It starts a process only if no
// file shows the version of its Python.
func (m *Manager) check(ctx context.Context, env environment) error {
	by := ""
	if env.setting != "" {
		by = " (named by " + env.setting + ")"
	}
	remedy, remake := "set "+m.cfg.Python.Name+" to an interpreter that works", ""
	if env.dir != "" {
		remedy, remake = fmt.Sprintf("remove %s if it is of no more use, or %s", env.dir, remedy), ", or make "+env.dir+" again with one"
	}
	if _, err := os.Stat(env.python); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("finding Python: %s is missing, or a link to a Python that is gone%s; %s", env.python, by, remedy)
	}
	if !isProgram(env.python) {
		return fmt.Errorf("finding Python: %s is not a program that can be run%s; %s", env.python, by, remedy)
	}
	found, err := m.identify(ctx, env.python)
	if err != nil {
		return fmt.Errorf("finding Python: %v%s; %s", err, by, remedy)
	}
	if found.tooOld() {
		return fmt.Errorf("finding Python: %s is Python %s%s, and %d.%d is the oldest that works; set %s to a newer one%s",
			env.python, found.version(), by, minMajor, minMinor, m.cfg.Python.Name, remake)
	}
	return m.checkBase(ctx, env, found)
}

// base returns the interpreter that a new environment is made from.
func (m *Manager) base(ctx context.Context) (interpreter, error) {
	if m.cfg.Base.Value != "" {
		return m.wanted(ctx, m.cfg.Base)
	}
	remedy := "install Python 3.9 or newer, or set " + m.cfg.Python.Name + " to one"
	path, ok := m.lookPath("python3")
	if !ok {
		return interpreter{}, fmt.Errorf("there is no python3 on PATH; %s", remedy)
	}
	found, err := m.identify(ctx, path)
	if err != nil {
		return interpreter{}, fmt.Errorf("%v; %s", err, remedy)
	}
	if found.tooOld() {
		return interpreter{}, fmt.Errorf("%s is Python %s, and %d.%d is the oldest that works; %s", path, found.version(), minMajor, minMinor, remedy)
	}
	return found, nil
}

// probeCode runs in every Python since 2.6. Its answer begins with "async-repl", because shims and
// start-up files print too.
const probeCode = `import sys; print("async-repl %d %d %s" % (sys.version_info[0], sys.version_info[1], sys.executable))`

var probeAnswer = pattern.Lazy(`(?m)^async-repl (\d+) (\d+) (.+)$`)

// probe asks the Python at path, or behind a shim at path, for its version and its own path. It
// imports nothing of the workspace or of the user's site.
func (m *Manager) probe(ctx context.Context, path string) (interpreter, error) {
	out, err := m.run(ctx, probeLimit, path, "-E", "-s", "-S", "-c", probeCode)
	if err != nil {
		return interpreter{}, err
	}
	answer := probeAnswer().FindSubmatch(out)
	if answer == nil {
		return interpreter{}, fmt.Errorf("%s does not answer like a Python: %q", path, view.Line(installer.LastLine(string(out)), 80))
	}
	found := numbered(path, string(answer[1]), string(answer[2]))
	if own := strings.TrimSpace(string(answer[3])); filepath.IsAbs(own) {
		found.path = own
	}
	return found, nil
}

// numbered returns the interpreter at path with a version in digits.
func numbered(path, major, minor string) interpreter {
	i := interpreter{path: path}
	i.major, _ = strconv.Atoi(major)
	i.minor, _ = strconv.Atoi(minor)
	return i
}

var (
	dotted          = pattern.Lazy(`^(\d+)\.(\d+)`)
	interpreterName = pattern.Lazy(`^(?:python|pypy)(\d)\.(\d+)[a-z]*$`) // python3.13t, pypy3.10
)

// recorded returns the version of the Python at path from its environment's pyvenv.cfg
// (https://docs.python.org/3/library/venv.html) or from the name of the program. It does not start
// the program, which takes 15 ms and more. venv writes the key "version"; uv and virtualenv write
// "version_info".
func recorded(path string) (interpreter, bool) {
	cfg := configOf(path)
	for _, key := range []string{"version", "version_info"} {
		if v := dotted().FindStringSubmatch(cfg[key]); v != nil {
			return numbered(path, v[1], v[2]), true
		}
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil || isScript(target) {
		return interpreter{}, false
	}
	if name := interpreterName().FindStringSubmatch(filepath.Base(target)); name != nil {
		return numbered(path, name[1], name[2]), true
	}
	return interpreter{}, false
}

// configOf reads the pyvenv.cfg of an environment's Python. It returns an empty map if the file is
// missing.
func configOf(python string) map[string]string {
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(python)), "pyvenv.cfg"))
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, "=")
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return values
}

// uv returns the path of uv, if there is one: the environment's own, else the first on the PATH. A
// version manager's shim counts only if it runs, because a shim can exist although no uv does.
func (m *Manager) uv(ctx context.Context, env environment) (string, bool) {
	if own := filepath.Join(env.dir, "bin", "uv"); env.dir != "" && isProgram(own) {
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

// lookPath finds a program on the PATH. Relative entries don't count.
func (m *Manager) lookPath(name string) (string, bool) {
	i := slices.IndexFunc(m.cfg.Path, func(dir string) bool { return filepath.IsAbs(dir) && isProgram(filepath.Join(dir, name)) })
	if i < 0 {
		return "", false
	}
	return filepath.Join(m.cfg.Path[i], name), true
}

// getenv returns a variable of the commands' environment.
func (m *Manager) getenv(name string) (value string) {
	for _, kv := range m.cfg.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v // the last one counts
		}
	}
	return value
}

// abs returns a path of the user as an absolute path. "~" is the home directory, as in a shell.
func (m *Manager) abs(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') && filepath.IsAbs(m.getenv("HOME")) {
		path = m.getenv("HOME") + rest
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(m.cfg.Workspace, path)
}

// exists reports whether something is at path, even a link whose target is gone.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// isFile reports whether path is a file and not a directory.
func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// isProgram reports whether path is a file that can be run.
func isProgram(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
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
