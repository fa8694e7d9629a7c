package main

import (
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/test/polltest"
)

// An idle session is ended, and the next reply says so once. The session that is made again under
// its name says it in the note of its first job.
func TestSessionTTL(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_SESSION_TTL=300ms", allocated)
	s.do("create_session", "name", "lab", "cwd", "/", "env", map[string]string{"MODE": "test"})
	const code = "import os; a = 1; os.getcwd(), os.environ['MODE']"
	job := s.do("execute_python", "session", "lab", "code", code, "wait_seconds", 60).Header("Job ID")
	lost := ""
	polltest.Until(t, "the end of the session", func() bool {
		if carrier() != "" { // a session there says it to calls for it
			if strings.Contains(string(s.do("list_sessions")), "lab") {
				return false
			}
			_, lost, _ = strings.Cut(s.refused("list_variables", "session", "lab"), "No session lab: ")
			lost, _, _ = strings.Cut(lost, ". The next ")
			return true
		}
		lost = s.do("list_sessions").Header("Lost")
		return lost != ""
	})
	if want := "session lab's Python was ended because it was idle for 300ms (REPL_SESSION_TTL) after job " + job + "; variables lost: a, os"; lost != want {
		t.Errorf("lost: %q, want %q", lost, want)
	}
	if again := s.do("list_sessions"); carrier() == "" && (again.Header("Lost") != "" || string(again) != "No sessions yet.") {
		t.Errorf("the next reply:\n%s", again)
	}
	if got := s.refused("list_variables", "session", "lab"); !strings.Contains(got, "No session lab: "+lost) {
		t.Errorf("a call for it is refused with %q", got)
	}
	r := s.do("execute_python", "session", "lab", "code", code, "wait_seconds", 60)
	if carrier() == "" && r.Header("Session") != "new" || r.Header("Note") != lost || !strings.HasSuffix(string(r), "('/', 'test')\n") {
		t.Errorf("the session that is made again:\n%s", r)
	}
}

// A ~ stands for the home directory in every path, as in a shell.
func TestPathsBelowTheHome(t *testing.T) {
	t.Parallel()
	home := filepath.Dir(newState(t))
	s := startServer(t, "HOME="+home, allocated)
	// A job fills it, because a sandbox has a home of its own.
	const fill = `mkdir -p "$HOME/lab/~" && echo "import os; print(os.getcwd(), __file__)" > ~/lab/here.py`
	holds(t, s.do("execute_command_async", "command", fill, "wait_seconds", 60), "Status", "completed")
	s.do("create_session", "name", "lab", "cwd", "~/lab")
	file := filepath.Join(home, "lab", "here.py")
	if got := s.do("execute_python", "session", "lab", "path", "~/lab/here.py", "wait_seconds", 60); got.Section("STDOUT") != home+"/lab "+file+"\n" {
		t.Errorf("a file below the home:\n%s", got)
	}
	for cwd, want := range map[string]string{"~": home, "~/lab": home + "/lab", home + "/lab/~": home + "/lab/~"} {
		if got := s.do("execute_command_async", "command", "pwd", "cwd", cwd, "wait_seconds", 60); got.Section("STDOUT") != want+"\n" {
			t.Errorf("cwd %s:\n%s", cwd, got)
		}
	}
	refused := func(args ...any) string {
		if carrier() != "" { // the job there is refused
			return s.do("execute_command_async", append(args, "wait_seconds", 60)...).Header("Status")
		}
		return s.refused("execute_command_async", args...)
	}
	if got := refused("command", "pwd", "cwd", "~nobody/x"); !strings.Contains(got, "cwd: there is no directory "+s.dir+"/~nobody/x.") {
		t.Errorf("a home of another user: %s", got)
	}
	if got := s.refused("export_session", "session", "lab", "path", "~/lab.py"); !strings.Contains(got, home+"/lab.py") {
		t.Errorf("an export outside of the workspace: %s", got)
	}
}

// Each refusal of a limit of memory names the range that there is.
func TestRangeOfMemoryLimits(t *testing.T) {
	t.Parallel()
	for setting, most := range map[string]string{"0": "16777216", "500": "500 (REPL_MEMORY_MB)"} {
		s := startServer(t, "REPL_MEMORY_MB="+setting, allocated)
		for _, mb := range []any{-1, 1, 63, 16777217, int64(1e18), 1e30, -1e30} {
			if got, want := s.refused("create_session", "name", "lab", "memory_mb", mb), "The limit memory_mb must be from 64 to "+most; !strings.HasSuffix(got, want) {
				t.Errorf("memory_mb %v: %q, want %q", mb, got, want)
			}
		}
	}
}

// A session that reaches the limit of its memory says so and works on, and server_status explains
// the limit.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_MEMORY_MB=100")
	for code, want := range map[string]string{
		"x = [bytearray(1 << 20) for _ in range(500)]":          "failed (out of memory: limit of 100 MB; variables kept)",
		"x = [bytearray(1 << 20) for _ in range(20)]; print(0)": "completed",
	} {
		if got := s.do("execute_python", "code", code, "wait_seconds", 60).Header("Status"); got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
	const each, together = "a memory limit of 100 MB for each process of a session, not for all together", "a memory limit of 100 MB for all processes of a session together"
	if works := s.do("server_status").Header("Works"); !strings.Contains(works, each) && !strings.Contains(works, together) {
		t.Errorf("server_status says %q, want %q or %q", works, each, together)
	}
}
