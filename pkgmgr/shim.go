package pkgmgr

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Version managers put shims on the PATH: small programs that look up which
// version of a tool is wanted here, and become it. That takes 100 ms at every
// start, so a shim is followed once to what stands behind it.
//
// A shim of pyenv or asdf is a script that runs its manager; one of mise or rye
// is a link to the manager. All live in a directory called shims. Python tells
// its own path when it is asked through a shim; for uv the manager is asked.

// isShim tells whether the program at path is, or may be, a shim.
func isShim(path string) bool {
	return filepath.Base(filepath.Dir(path)) == "shims" || isScript(path)
}

// isScript tells whether the file at path is a script and not a binary.
func isScript(path string) bool { return strings.HasPrefix(head(path, 2), "#!") }

// head returns at most the first n bytes of the file at path.
func head(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, n))
	if err != nil {
		return ""
	}
	return string(b)
}

// managerCall is the line by which the shims of pyenv and asdf become the tool:
// exec "/home/me/.pyenv/libexec/pyenv" exec "$program" "$@".
var managerCall = pattern(`(?m)^\s*exec\s+"?([^"\s]+)"?\s+exec\s`)

// pyenvVersion is a version of pyenv that is named in full, or nearly so.
var pyenvVersion = pattern(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// pyenvChoice reads which Python the shim of pyenv leads to, in the places where
// pyenv looks and in its order. Where that names no installed version outright
// pyenv itself is to be asked, which takes 100 ms.
func (m *Manager) pyenvChoice(shim string) (interpreter, bool) {
	call := managerCall().FindStringSubmatch(head(shim, 4096))
	if call == nil || filepath.Base(call[1]) != "pyenv" || m.getenv("PYENV_DIR") != "" {
		return interpreter{}, false
	}
	root := filepath.Dir(filepath.Dir(shim))
	wanted := strings.ReplaceAll(m.getenv("PYENV_VERSION"), ":", " ")
	for dir := m.cfg.Workspace; wanted == ""; dir = filepath.Dir(dir) {
		wanted = head(filepath.Join(dir, ".python-version"), 4096)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if wanted == "" {
		wanted = head(filepath.Join(root, "version"), 4096)
	}
	words := strings.Fields(wanted)
	if len(words) == 0 || !pyenvVersion().MatchString(words[0]) {
		return interpreter{}, false
	}
	python := filepath.Join(root, "versions", words[0], "bin", "python3")
	if !isProgram(python) {
		return interpreter{}, false
	}
	return recorded(python)
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

// uv returns the path of uv, if there is one: the environment's own, else the
// first on the PATH. A shim with no uv behind it is passed over; another script
// of that name is what the user calls uv.
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
		if real, ok := m.behind(ctx, path, "uv"); ok {
			return real, true
		}
		m.log.Debug("no uv behind shim", "shim", path)
	}
	return "", false
}

// behind asks the manager of a shim for the program that it leads to.
func (m *Manager) behind(ctx context.Context, shim, tool string) (string, bool) {
	manager, err := filepath.EvalSymlinks(shim)
	if err != nil {
		return "", false
	}
	if isScript(manager) {
		call := managerCall().FindStringSubmatch(head(manager, 4096))
		if call == nil {
			return "", false
		}
		manager = call[1]
		if !filepath.IsAbs(manager) {
			var ok bool
			if manager, ok = m.lookPath(manager); !ok {
				return "", false
			}
		}
	}
	out, err := m.run(ctx, probeLimit, manager, "which", tool)
	if err != nil {
		return "", false
	}
	path := lastLine(out)
	return path, filepath.IsAbs(path) && path != shim && isProgram(path)
}
