package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/demo"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// sandboxStep plays the step of the demo with a sandbox, and returns what it prints. The value is that of
// REPL_SANDBOX where it should hold.
func sandboxStep(t *testing.T, value string) (string, error) {
	t.Helper()
	_, rest, _ := strings.Cut(demo.Session, "\n# in a sandbox ")
	rest, _, _ = strings.Cut(rest, "\n# ")
	script := "# in a sandbox " + strings.ReplaceAll(rest, "\nsandbox workspace\n", "\nsandbox "+value+"\n")
	var out, servers bytes.Buffer // the servers print beside the demo
	err := demo.Program{Path: ownProgram(t), Env: withoutSettings(os.Environ())}.Run(t.Context(), script, &out, &servers)
	return out.String() + servers.String(), err
}

// The demo shows what a sandbox prevents where one can start, and that the same job does it without one.
func TestDemoShowsASandbox(t *testing.T) {
	out, err := exec.Command(needtest.Program(t, "bwrap"), "--unshare-user", "--ro-bind", "/", "/", "true").CombinedOutput()
	needtest.Right(t, "make a user namespace", err, out)
	t.Parallel()
	if out, err := sandboxStep(t, "workspace"); err != nil || strings.Contains(out, "left out") || !strings.Contains(out, "     a job has called\n") {
		t.Errorf("%v; the step was not played:\n%s", err, out)
	}
	if out, err := sandboxStep(t, "none"); err == nil {
		t.Errorf("the step passes without a sandbox:\n%s", out)
	}
}

// Where no sandbox can start, the demo says why and passes.
func TestDemoWithoutASandbox(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\necho bwrap: Unknown option --unshare-user >&2; exit 1\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if out, err := sandboxStep(t, "workspace"); err != nil || !strings.Contains(out, "\n   left out: bwrap: Unknown option --unshare-user: this bwrap is older than 0.4.0") || !strings.Contains(out, "\n   ✓ passed") {
		t.Errorf("%v; the step does not say why it was left out:\n%s", err, out)
	}
}
