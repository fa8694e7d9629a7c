package main

import (
	"strings"
	"testing"
)

// An idle session is ended, and the next reply says so once. The session that is made again under
// its name says it in the note of its first job.
func TestSessionTTL(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_SESSION_TTL=300ms")
	s.do("create_session", "name", "lab", "cwd", "/", "env", map[string]string{"MODE": "test"})
	const code = "import os; a = 1; os.getcwd(), os.environ['MODE']"
	job := s.do("execute_python", "session", "lab", "code", code, "wait_seconds", 60).Header("Job ID")
	lost := ""
	s.wait("the end of the session", func() bool {
		lost = s.do("list_sessions").Header("Lost")
		return lost != ""
	})
	if want := "session lab's Python was ended because it was idle for 300ms (REPL_SESSION_TTL) after job " + job + "; variables lost: a, os"; lost != want {
		t.Errorf("lost: %q, want %q", lost, want)
	}
	if again := s.do("list_sessions"); again.Header("Lost") != "" || string(again) != "No sessions yet." {
		t.Errorf("the next reply:\n%s", again)
	}
	if got := s.refused("list_variables", "session", "lab"); !strings.Contains(got, "No session lab: "+lost) {
		t.Errorf("a call for it is refused with %q", got)
	}
	r := s.do("execute_python", "session", "lab", "code", code, "wait_seconds", 60)
	if r.Header("Session") != "new" || r.Header("Note") != lost || !strings.HasSuffix(string(r), "('/', 'test')\n") {
		t.Errorf("the session that is made again:\n%s", r)
	}
}

// The tools of a toolset that is not chosen are neither listed nor run.
func TestToolsetsSetting(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_TOOLSETS=core")
	if got := s.refused("list_sessions"); !strings.Contains(got, "list_sessions is in the toolset sessions, which this server does not offer.") {
		t.Errorf("refused with %q", got)
	}
	s.do("list_jobs")
}

// The packages of a new session are installed into its own environment before its first job. A later
// install for it goes there too.
func TestSessionWithPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("installers take seconds")
	}
	t.Parallel()
	s := startServer(t, "PIP_NO_INDEX=1", "UV_OFFLINE=1")
	for _, name := range []string{"spam", "eggs"} {
		if _, err := buildWheel(s.dir, name, "1.0", "x = 1"); err != nil {
			t.Fatal(err)
		}
	}
	made := s.do("create_session", "name", "lab", "venv", "own", "packages", "./spam-1.0-py3-none-any.whl")
	install, _, _ := strings.Cut(strings.TrimPrefix(made.Header("Installing"), "job "), ";")
	first := s.do("execute_python", "session", "lab", "code", "import spam, sys; print(spam.__file__, sys.executable)", "wait_seconds", 0)
	if got := first.Header("Status"); got != "queued" || first.Header("Queued behind") == "" {
		t.Errorf("the first job:\n%s", first)
	}
	if r := s.end(install); r.Header("Status") != "completed (installed spam 1.0)" {
		t.Errorf("the install:\n%s", r)
	}
	venv := s.dir + "/.venvs/lab/"
	r := s.end(first.Header("Job ID"))
	if out := r.Section("STDOUT"); strings.Count(out, venv) != 2 {
		t.Errorf("the first job:\n%s", r)
	}
	r = s.do("install_package_async", "session", "lab", "package", "./eggs-1.0-py3-none-any.whl", "wait_seconds", 60)
	if r.Header("Status") != "completed (installed eggs 1.0)" || r.Header("Session") != "" {
		t.Errorf("a later install:\n%s", r)
	}
	r = s.do("execute_python", "session", "lab", "code", "import eggs, subprocess; eggs.__file__, subprocess.run('pip --version', shell=True, capture_output=True, text=True).stdout", "wait_seconds", 60)
	if out := r.Section("RESULT"); strings.Count(out, venv) < 1 {
		t.Errorf("it can be imported:\n%s", r)
	}
	if r := s.do("delete_session", "session", "lab"); r.Header("Kept") != venv[:len(venv)-1]+", the environment of the session" {
		t.Errorf("the end:\n%s", r)
	}

	made = s.do("create_session", "name", "broken", "venv", ".venvs/lab", "packages", "no-such-package")
	install, _, _ = strings.Cut(strings.TrimPrefix(made.Header("Installing"), "job "), ";")
	first = s.do("execute_python", "session", "broken", "code", "1", "wait_seconds", 60)
	if got, want := first.Header("Status"), "failed (not run: job "+install+" did not complete, and this one was queued behind it)"; got != want {
		t.Errorf("a job behind an install that fails is %q, want %q", got, want)
	}
	r = s.do("execute_python", "session", "broken", "code", "import spam, eggs", "wait_seconds", 60)
	if r.Header("Status") != "completed" {
		t.Errorf("a later job:\n%s", r)
	}
}
