package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// newWorkspace starts a server in a workspace that has no environment yet. Its PATH has a python3,
// and uv if withUV is set.
func newWorkspace(t *testing.T, withUV bool, env ...string) *started {
	t.Helper()
	bin := t.TempDir()
	// No link: Python would take its directory for that of an environment.
	processtest.WriteProgram(t, filepath.Join(bin, "python3"), "#!/bin/sh\nexec '"+realPython()+"' \"$@\"\n")
	if withUV {
		uv := needtest.Program(t, "uv")
		if err := os.Symlink(uv, filepath.Join(bin, "uv")); err != nil {
			t.Fatal(err)
		}
	}
	return startServer(t, append([]string{ownEnvironment, "VIRTUAL_ENV=", "CONDA_PREFIX=", "PATH=" + bin + ":/usr/bin:/bin"}, env...)...)
}

// sh runs a command to its end.
func (s *started) sh(command string) (status, output string) {
	s.t.Helper()
	r := s.end(s.do("execute_command_async", "command", command).Header("Job ID"))
	return r.Header("Status"), r.Section("STDOUT")
}

// A pip in a shell job installs into the environment of the sessions, which it makes if there is
// none, and a running session imports the package at once. A pip of another Python refuses.
func TestPipInShell(t *testing.T) {
	for name, withUV := range map[string]bool{"venv": false, "uv": true} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("pip takes seconds")
			}
			t.Parallel()
			s := newWorkspace(t, withUV)
			for _, module := range []string{"first", "second"} {
				saveWheel(t, s.dir, module, "1.0", "value = '"+module+"'")
			}
			r := s.end(s.do("execute_command_async", "command", "python3 -m pip install --no-index ./first-1.0-py3-none-any.whl").Header("Job ID"))
			if !strings.HasPrefix(r.Header("Status"), "failed") || !strings.Contains(r.Header("Note"), "another Python") {
				t.Errorf("before there is an environment:\n%s", r)
			}
			steps := []struct{ command, code, status, want string }{
				{"pip install --no-index ./first-1.0-py3-none-any.whl", "", "completed", "Successfully installed first-1.0"},
				{"", "import first, sys; first.value, sys.prefix", "completed", "('first', '" + s.dir + "/.venv')"},
				{"python -m pip install --no-index ./second-1.0-py3-none-any.whl", "", "completed", "Successfully installed second-1.0"},
				{"", "import second; second.value", "completed", "'second'"},
				{"", "import subprocess; subprocess.run(['pip', 'show', 'second']).returncode", "completed", "Name: second"},
				{"pip3 uninstall -y first", "", "completed", "Successfully uninstalled first-1.0"},
				{"pip install --no-index no-such-package", "", "failed (exit 1)", "No matching distribution"},
			}
			if withUV {
				steps = steps[:4] // for the rest it makes no difference how the environment was made
			}
			for _, step := range steps {
				tool, argument, text := "execute_command_async", "command", step.command
				if step.code != "" {
					tool, argument, text = "execute_python", "code", step.code
				}
				r := s.end(s.do(tool, argument, text).Header("Job ID"))
				if r.Header("Status") != step.status || !strings.Contains(string(r), step.want) {
					t.Fatalf("%s:\n%s\nwant %s, %s", text, r, step.status, step.want)
				}
			}
		})
	}
}

// A pip in a shell job installs into the environment that its script has activated, even if that
// has no pip.
func TestPipOfActivatedEnvironment(t *testing.T) {
	if testing.Short() {
		t.Skip("pip takes seconds")
	}
	t.Parallel()
	s := newWorkspace(t, false)
	saveWheel(t, s.dir, "first", "1.0", "")
	status, out := s.sh("python3 -m venv --without-pip other && . other/bin/activate && pip install --no-index ./first-1.0-py3-none-any.whl && python -c 'import first; print(first.__file__)'")
	if status != "completed" || !strings.Contains(out, "\n"+s.dir+"/other/lib") {
		t.Errorf("%s\n%s", status, out)
	}
	if _, err := os.Stat(filepath.Join(s.dir, ".venv")); err == nil {
		t.Error(".venv was made")
	}
}

// The directory of the program pip goes with its server. That of a server that was killed goes with
// the first call of the next one in the workspace.
func TestProgramPipIsRemoved(t *testing.T) {
	state := newState(t)
	find := func(s *started) string {
		status, out := s.sh("command -v pip")
		if status != "completed" || !strings.HasPrefix(out, s.records()+"/runs/") {
			t.Fatalf("%s: pip is %q, want it in %s", status, out, s.records())
		}
		return filepath.Dir(out)
	}
	killed := startServer(t, "REPL_STATE_DIR="+state, "REPL_KEEPER=off") // an engine outlives the process that is killed
	left := find(killed)
	killed.signal(syscall.SIGKILL)
	killed.exit()
	if _, err := os.Stat(left); err != nil {
		t.Errorf("the directory of a killed server: %v", err)
	}
	next := killed.restart(state)
	own := find(next)
	if _, err := os.Stat(left); err == nil {
		t.Error("the directory of a killed server is still there")
	}
	next.stop()
	next.exit()
	if _, err := os.Stat(own); err == nil {
		t.Error("the directory of a server that has ended is still there")
	}
}

// In a project of uv that has no environment, the first reply and an install say what uv would do.
func TestProjectOfUV(t *testing.T) {
	if testing.Short() {
		t.Skip("pip takes seconds")
	}
	t.Parallel()
	s := newWorkspace(t, false)
	for _, name := range []string{"pyproject.toml", "uv.lock"} {
		s.write(name, "")
	}
	saveWheel(t, s.dir, "first", "1.0", "")
	first := s.do("execute_python", "code", "1", "wait_seconds", 60)
	if got, want := first.Header("Note"), "this is a uv project; run uv sync --frozen to install what it locks"; got != want {
		t.Errorf("the first reply: %q, want %q\n%s", got, want, first)
	}
	if second := s.do("execute_python", "wait_seconds", 60, "code", "2"); second.Header("Note") != "" {
		t.Errorf("the second reply:\n%s", second)
	}
	installed := s.end(s.do("install_package_async", "package", "./first-1.0-py3-none-any.whl").Header("Job ID"))
	if got, want := installed.Header("Note"), "pyproject.toml and uv.lock are not changed; uv add changes them"; got != want {
		t.Errorf("an install: %q, want %q\n%s", got, want, installed)
	}
}

// Several programs pip and a session that start at once make one environment.
func TestPipAndSessionMakeOneEnvironment(t *testing.T) {
	if testing.Short() {
		t.Skip("pip takes seconds")
	}
	t.Parallel()
	s := newWorkspace(t, false)
	var ids []string
	for range 3 {
		ids = append(ids, s.do("execute_command_async", "command", "pip --version", "wait_seconds", 0).Header("Job ID"))
	}
	ids = append(ids, s.do("execute_python", "code", "import sys; print(sys.prefix)", "wait_seconds", 0).Header("Job ID"))
	made := 0
	for _, id := range ids {
		r := s.end(id)
		if r.Header("Status") != "completed" {
			t.Errorf("%s", r)
		}
		made += strings.Count(string(r), "Making the environment")
	}
	if made > 1 {
		t.Errorf("the environment was made %d times", made)
	}
}

// A program pip that is interrupted while it makes the environment leaves none.
func TestPipIsInterruptedWhileMaking(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	// It answers the question for its version and then hangs.
	python := "#!/bin/sh\ncase \"$*\" in *async-repl*) echo \"async-repl 3 12 $0\";; *) exec sleep 300;; esac\n"
	processtest.WriteProgram(t, filepath.Join(bin, "python3"), python)
	s := startServer(t, ownEnvironment, "VIRTUAL_ENV=", "CONDA_PREFIX=", "PATH="+bin+":/usr/bin:/bin")
	id := s.do("execute_command_async", "command", "pip install x", "wait_seconds", 0).Header("Job ID")
	s.prints(id, "Making the environment")
	polltest.Until(t, "the directory", func() bool { _, err := os.Stat(filepath.Join(s.dir, ".venv")); return err == nil })
	s.do("cancel_job", "job_id", id)
	if r := s.end(id); r.Header("Status") != "cancelled (interrupted)" || !strings.Contains(string(r), "pip: interrupted") {
		t.Errorf("%s", r)
	}
	if _, err := os.Stat(filepath.Join(s.dir, ".venv")); err == nil {
		t.Error(".venv is still there")
	}
}
