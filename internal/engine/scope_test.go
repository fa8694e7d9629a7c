//go:build unix

package engine_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/jobs/jobstest"
)

// The jobs of a client start in the workspace and the environment that it brings, where its virtual
// environment is, too.
func TestWorkspaceOfAClient(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Python = ""
	b := newBench(t, c)
	if b.Workspace() != c.Workspace || b.Scope().Workspace != c.Workspace {
		t.Errorf("a client that brings no workspace has %s", b.Scope().Workspace)
	}
	dir := t.TempDir()
	sc := b.Engine.Scope(engine.Client{Env: append(c.Env, "VIRTUAL_ENV=", "CONDA_PREFIX=", "MINE=brought"), Workspace: dir})
	j := b.shell(sc, engine.Command{Line: "pwd; echo $MINE"})
	jobstest.End(t, j)
	if got := jobstest.Output(j); got != dir+"\nbrought\n" {
		t.Errorf("a command prints %q", got)
	}
	st := b.Status(sc)
	if venv := filepath.Join(dir, ".venv"); st.Workspace != dir || !strings.HasPrefix(st.Python, venv+" will be made") {
		t.Errorf("the status: workspace %s, Python %s", st.Workspace, st.Python)
	}
}

// What concerns one connection is logged where and at the level that its client wants.
func TestLogOfAClient(t *testing.T) {
	t.Parallel()
	var engines, clients strings.Builder
	c := config(t)
	c.Log = slog.New(slog.NewTextHandler(&engines, nil))
	b := newBench(t, c)
	b.Scope().Log.Info("one")
	sc := b.Engine.Scope(engine.Client{Env: c.Env, Log: slog.New(slog.NewTextHandler(&clients, &slog.HandlerOptions{Level: slog.LevelError}))})
	sc.Log.Info("two")
	sc.Log.Error("three")
	if text := engines.String(); !strings.Contains(text, "msg=one") || strings.Contains(text, "msg=t") {
		t.Errorf("the engine's log: %q", text)
	}
	if text := clients.String(); strings.Count(text, "msg=") != 1 || !strings.Contains(text, "msg=three") {
		t.Errorf("the client's log: %q", text)
	}
}

// A session that was ended because it was idle comes back with the environment of the client that
// made it, whoever opens it.
func TestASessionComesBackWithItsEnvironment(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.SessionTTL = 20 * time.Millisecond
	b := newBench(t, c)
	brings := func(mine, dir string) engine.Scope {
		return b.Engine.Scope(engine.Client{Env: append(c.Env[:len(c.Env):len(c.Env)], "MINE="+mine), Workspace: dir})
	}
	dir := t.TempDir()
	maker, other := brings("maker's", dir), brings("other's", t.TempDir())
	const code = "import os; print(os.environ['MINE'], os.getcwd())"
	jobstest.End(t, b.python(maker, "lab", code))
	expired(t, b, "lab")
	j := b.python(other, "lab", code)
	jobstest.End(t, j)
	if got, want := jobstest.Output(j), "maker's "+dir+"\n"; got != want {
		t.Errorf("the session prints %q, want %q", got, want)
	}
}
