// Package pythontest finds the Python that tests run, and makes it start quickly.
package pythontest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Real returns the interpreter that python3 on PATH is, past any shim and any environment.
func Real(t testing.TB) string {
	t.Helper()
	path, err := findReal()
	if err != nil {
		t.Fatalf("finding Python: %v", err)
	}
	return path
}

// findReal asks once: a shim takes longer than a session.
var findReal = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("python3", "-c", "import sys; print(getattr(sys, '_base_executable', sys.executable))").Output()
	return strings.TrimSpace(string(out)), err
})

// Bare returns an interpreter in an environment of the one at path that has no packages. Path files
// of installed packages can import modules at each start, which can take three times as long as
// all else in it. The environment is removed at the end of the test.
func Bare(t testing.TB, path string) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	python := filepath.Join(bin, "python")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, python); err != nil {
		t.Fatal(err)
	}
	text := "home = " + filepath.Dir(path) + "\ninclude-system-site-packages = false\n"
	if err := os.WriteFile(filepath.Join(dir, "pyvenv.cfg"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return python
}
