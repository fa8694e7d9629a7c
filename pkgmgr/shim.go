package pkgmgr

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// managerCall is the line by which the shims of pyenv and asdf become the tool:
// exec "/home/me/.pyenv/libexec/pyenv" exec "$program" "$@".
var managerCall = regexp.MustCompile(`(?m)^\s*exec\s+"?([^"\s]+)"?\s+exec\s`)

// behind asks the manager of a shim for the program that it leads to.
func (m *Manager) behind(ctx context.Context, shim, tool string) (string, bool) {
	manager, err := filepath.EvalSymlinks(shim)
	if err != nil {
		return "", false
	}
	if isScript(manager) {
		call := managerCall.FindStringSubmatch(head(manager, 4096))
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
