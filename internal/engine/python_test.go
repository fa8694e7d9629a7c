//go:build unix

package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/process/cgroup"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A session with an environment of its own runs there, and so does what it starts. Shell jobs and
// other sessions stay in the environment of the workspace. The environment outlives the session.
func TestSessionInItsOwnEnvironment(t *testing.T) {
	t.Parallel()
	c := config(t)
	c.Env = append(c.Env, "VIRTUAL_ENV=/server's", "CONDA_PREFIX=/conda", "PYTHONHOME=")
	b := newBench(t, c)
	sc := b.Scope()
	dir := filepath.Join(c.Workspace, ".venvs", "lab")
	if st := b.create(sc, engine.SessionSpec{Name: "lab", Venv: engine.OwnVenv}); st.Python != filepath.Join(dir, "bin", "python")+" (not made yet)" {
		t.Errorf("a new session has Python %s", st.Python)
	}
	const code = `import os, shutil, subprocess, sys
print(sys.prefix, os.environ["VIRTUAL_ENV"], os.environ.get("CONDA_PREFIX"), os.environ.get("PIP_REQUIRE_VIRTUALENV"))
print(shutil.which("python"), subprocess.run(["python", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True).stdout)`
	if got, want := b.says(sc, "lab", code), strings.ReplaceAll("DIR DIR None 1\nDIR/bin/python DIR\n\n", "DIR", dir); got != want {
		t.Errorf("the session prints %q, want %q", got, want)
	}
	if got := b.says(sc, "default", "import os, sys; print(sys.executable, os.environ['VIRTUAL_ENV'])"); got != c.Python+" /server's\n" {
		t.Errorf("another session prints %q", got)
	}
	j := b.shell(sc, engine.Command{Line: "echo $VIRTUAL_ENV $CONDA_PREFIX"})
	if record := jobstest.End(t, j); record.Status != jobs.Completed || strings.TrimSpace(jobstest.Output(j)) != "/server's /conda" {
		t.Errorf("a shell job: %s, %q", record.Receipt.Text(), jobstest.Output(j))
	}
	wait, kept := must.Get2(b.Delete("lab", jobs.Agent, "test"))(t)
	if _, err := wait(t.Context()); err != nil {
		t.Error(err)
	}
	if got := kept(); got != dir {
		t.Errorf("Delete keeps %q, want %q", got, dir)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// The environment of a session that is deleted while it is made goes again, and is not called kept.
func TestDeleteKeepsNoEnvironmentThatWasNotMade(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := newBench(t, c)
	sc := b.Scope()
	dir := filepath.Join(c.Workspace, ".venvs", "lab")
	exists := func() bool { _, err := os.Stat(dir); return err == nil }
	b.create(sc, engine.SessionSpec{Name: "lab", Venv: engine.OwnVenv})
	j := b.python(sc, "lab", "1")
	polltest.Until(t, "the environment", exists)
	wait, kept := must.Get2(b.Delete("lab", jobs.Agent, "test"))(t)
	if _, err := wait(t.Context()); err != nil {
		t.Error(err)
	}
	jobstest.End(t, j)
	if got := kept(); (got == dir) != exists() { // the job can have been too fast
		t.Errorf("Delete keeps %q, and it exists: %v", got, exists())
	}
}

// An interpreter without an environment is used as it is, and no pip refuses to install into it.
func TestSessionOnAnInterpreter(t *testing.T) {
	t.Parallel()
	c := config(t)
	python := must.Get(filepath.EvalSymlinks(c.Python))(t) // not that of an environment
	c.Python = ""
	b := newBench(t, c)
	sc := b.Scope()
	b.create(sc, engine.SessionSpec{Name: "bare", Python: python})
	const code = `import os, sys
print(sys.prefix == sys.base_prefix, sys.executable, os.environ["PATH"].split(os.pathsep)[0], os.environ.get("PIP_REQUIRE_VIRTUALENV"))`
	if got, want := b.says(sc, "bare", code), "True "+python+" "+filepath.Dir(python)+" None\n"; got != want {
		t.Errorf("the session prints %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(c.Workspace, ".venv")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an environment was made: %v", err)
	}
}

// A session has the limit of its memory that it asked for, and the status says what it limits.
func TestMemoryOfSessions(t *testing.T) {
	inFull(t)
	needtest.Linux(t, "limits of memory")
	t.Parallel()
	c := config(t)
	b := newBench(t, c)
	sc := b.Scope()
	of, about := ", at most 100 MB", []string{"memory limits of sessions, for all processes together (cgroup v2)"}
	if err := cgroup.Available(); err != nil {
		of, about = of+" a process", []string{"memory limits of sessions, for each process and not for all together", "cgroup v2 can't limit all processes of a session together: " + err.Error()}
	}
	if st := b.create(sc, engine.SessionSpec{Name: "small", MemoryMB: 100}); !strings.HasSuffix(st.String(), of) {
		t.Errorf("a session with a limit: %s, want %q", st, of)
	}
	st := b.Status(sc)
	for _, want := range about {
		if says := append(st.Works, st.Lacks...); !slices.Contains(says, want) {
			t.Errorf("Status says %q, want %q", says, want)
		}
	}
	b.says(sc, "small", "pass") // which a branch needs
	must.Get2(b.Branch(t.Context(), "small", "branch"))(t)
	const outOfMemory = "failed (out of memory: limit of 100 MB; variables kept)"
	for session, want := range map[string]string{"small": outOfMemory, "branch": outOfMemory, "default": "completed"} {
		if got := jobstest.End(t, b.python(sc, session, "len(bytearray(150 << 20))")).Receipt.Text(); got != want {
			t.Errorf("session %s: %s, want %s", session, got, want)
		}
	}
}
