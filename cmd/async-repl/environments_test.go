package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// otherPython returns an interpreter that can be used and is of another version than realPython,
// and its version.
func otherPython(t *testing.T) (python, version string) {
	t.Helper()
	ask := func(python string) (version string, ok bool) {
		out, err := exec.Command(python, "-I", "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2]); sys.exit(sys.version_info < (3, 9))").Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	own, _ := ask(realPython())
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/python3"))
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		more, _ := filepath.Glob(filepath.Join(dir, "python3.*"))
		found = append(found, more...)
	}
	for _, python := range found {
		if version, ok := ask(python); ok && version != own && filepath.Base(filepath.Dir(python)) != "shims" {
			return python, version
		}
	}
	t.Skip("this machine has only one Python, " + own)
	return "", ""
}

// python runs code in a session to its end.
func (s *started) python(session, code string) (status, result string) {
	s.t.Helper()
	r := s.end(s.do("execute_python", "code", code, "session", session).Header("Job ID"))
	return r.Header("Status"), strings.TrimSuffix(r.Section("RESULT"), "\n")
}

// A session has the Python, the environment and the packages that it asked for. What is installed
// for it, by tool or by a pip that it starts, goes there, and only sessions there are noted.
func TestEnvironmentsOfSessions(t *testing.T) {
	for name, withUV := range map[string]bool{"venv": false, "uv": true} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("pip takes seconds")
			}
			t.Parallel()
			python, version := otherPython(t)
			s := newWorkspace(t, withUV, "PIP_NO_INDEX=1", "UV_OFFLINE=1")
			for _, p := range [][2]string{{"spam", "1.0"}, {"spam", "2.0"}, {"eggs", "1.0"}, {"beans", "1.0"}} {
				saveWheel(t, s.dir, p[0], p[1], "value = '"+p[1]+"'")
			}
			s.makeLab(python, version)
			s.do("create_session", "name", "twin", "venv", ".venvs/lab")
			installer := "'python', '-m', 'pip'"
			if withUV {
				installer = "'uv', 'pip'"
			}
			for _, step := range []struct{ session, code, status, result string }{
				{"default", "import spam", "failed (ModuleNotFoundError: No module named 'spam')", ""},
				{"default", "import sys; sys.prefix", "completed", "'" + s.dir + "/.venv'"},
				{"twin", "import spam; spam.value", "completed", "'1.0'"},
				{"lab", "import subprocess; subprocess.run(['pip', 'install', './eggs-1.0-py3-none-any.whl']).returncode", "completed", "0"},
				{"lab", "import eggs; eggs.value", "completed", "'1.0'"},
				{"lab", "subprocess.run([" + installer + ", 'install', './beans-1.0-py3-none-any.whl']).returncode", "completed", "0"},
				{"lab", "import beans; beans.value", "completed", "'1.0'"},
				{"twin", "import eggs; eggs.value", "completed", "'1.0'"},
				{"default", "import eggs", "failed (ModuleNotFoundError: No module named 'eggs')", ""},
			} {
				if status, result := s.python(step.session, step.code); status != step.status || result != step.result {
					t.Errorf("%s in %s: %s, %s; want %s, %s", step.code, step.session, status, result, step.status, step.result)
				}
			}
			s.updateTwin()
			if kept := s.do("delete_session", "session", "lab").Header("Kept"); !strings.HasPrefix(kept, s.dir+"/.venvs/lab, ") {
				t.Errorf("delete_session keeps %q", kept)
			}
			if status, result := s.python("twin", "eggs.value"); status != "completed" || result != "'1.0'" {
				t.Errorf("after the other session was deleted: %s, %s", status, result)
			}
		})
	}
}

// makeLab makes the session "lab" with a Python, an environment and a package of its own, for which
// its first job waits.
func (s *started) makeLab(python, version string) {
	s.t.Helper()
	r := s.do("create_session", "name", "lab", "python", python, "venv", "own", "packages", "./spam-1.0-py3-none-any.whl")
	if r.Header("Session") != "new" || !strings.Contains(string(r), "/.venvs/lab/bin/python (not made yet)") {
		s.t.Fatalf("create_session says\n%s", r)
	}
	install, ok := strings.CutPrefix(r.Header("Installing"), "job ")
	if install, _, _ = strings.Cut(install, ";"); !ok {
		s.t.Fatalf("create_session names no install:\n%s", r)
	}
	first := s.do("execute_python", "session", "lab", "code", "import spam, sys; spam.value, sys.prefix, '%d.%d' % sys.version_info[:2]", "wait_seconds", 0)
	if ahead := first.Header("Queued behind"); first.Header("Status") == "queued" && !strings.HasPrefix(ahead, install) {
		s.t.Errorf("the first job waits for %q, want %s", ahead, install)
	}
	holds(s.t, s.end(install), "Status", "completed (installed spam 1.0)")
	got, want := strings.TrimSpace(s.end(first.Header("Job ID")).Section("RESULT")), "('1.0', '"+s.dir+"/.venvs/lab', '"+version+"')"
	if got != want {
		s.t.Errorf("the first job has %s, want %s", got, want)
	}
}

// updateTwin updates a package in the environment of "lab" by its other session. The sessions there
// that have imported it are named, and no other.
func (s *started) updateTwin() {
	s.t.Helper()
	r := s.end(s.do("install_package_async", "session", "twin", "package", "./spam-2.0-py3-none-any.whl").Header("Job ID"))
	holds(s.t, r, "Status", "completed (installed spam 2.0 (was 1.0))")
	for session, want := range map[string]bool{"lab": true, "twin": true, "default": false} {
		if got := strings.Contains(string(r), "session "+session+" has imported spam before"); got != want {
			s.t.Errorf("session %s is noted: %v, want %v\n%s", session, got, want, r)
		}
	}
}

// The packages of a session wait until their install may run, and so do the session's jobs.
func TestPackagesOfASessionWait(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_MAX_JOBS=1")
	must.Do(t, os.WriteFile(filepath.Join(s.dir, "none-1.0-py3-none-any.whl"), nil, 0o600))
	first := s.do("execute_command_async", "command", "echo on; sleep 300", "wait_seconds", 0).Header("Job ID")
	s.prints(first, "on")
	made := s.do("create_session", "name", "lab", "packages", "./none-1.0-py3-none-any.whl").Header("Installing")
	install := strings.TrimPrefix(strings.TrimSuffix(made, "; the first jobs of the session wait for it"), "job ")
	code := s.do("execute_python", "session", "lab", "code", "1", "wait_seconds", 0)
	holds(t, code, "Queued behind", install+" (queued)")
	holds(t, s.do("check_job_status", "job_id", install), "Queued", "1 job is running, the most allowed (REPL_MAX_JOBS): "+first+" (running)")
	s.do("cancel_job", "job_id", first)
	if r := s.end(install); !strings.HasPrefix(r.Header("Status"), "failed (exit 1") {
		t.Errorf("the install that has waited:\n%s", r)
	}
	holds(t, s.end(code.Header("Job ID")), "Status", "failed (not run: job "+install+" did not complete, and this one was queued behind it)")
}
