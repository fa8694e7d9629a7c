package main

import (
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
)

// Commands of a shell session begin where the last one ended, one at a time.
func TestShellSession(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	run := func(command string, more ...any) client.Reply {
		t.Helper()
		return s.do("execute_command_async", append([]any{"command", command, "shell_session", "build", "wait_seconds", 60}, more...)...)
	}
	r := run("mkdir src && cd src && export TARGET=debug && make_it() { :; }")
	holds(t, r, "Status", "completed")
	if text := string(r); !strings.Contains(text, "Note: shell session build is new\n") || !strings.Contains(text, "/src now\n") {
		t.Errorf("the reply does not say where the session is:\n%s", text)
	}
	first := run("echo $TARGET in $(basename $PWD); read x; cd ..")
	holds(t, first, "Status", "waiting_input")
	behind := run("pwd", "wait_seconds", 0.1)
	holds(t, behind, "Status", "queued")
	if got, want := behind.Header("Queued behind"), first.Header("Job ID"); !strings.HasPrefix(got, want) {
		t.Errorf("queued behind %s, not %s", got, want)
	}
	r = s.do("server_status")
	// The status has a line for each place, not for the sessions there.
	if carrier() == "" && (!strings.Contains(string(r), "Shell session: build, in ") || !strings.Contains(string(r), "/src, busy\n")) {
		t.Errorf("the server's status does not list the session:\n%s", r)
	}
	s.do("send_command_input", "job_id", first.Header("Job ID"), "text", "\n")
	r = s.do("check_job_status", "job_id", behind.Header("Job ID"), "wait_seconds", 60)
	if body := string(r); !strings.HasSuffix(strings.TrimSpace(body), s.dir) {
		t.Errorf("the last command was not in %s:\n%s", s.dir, body)
	}
	if text := s.refused("execute_command_async", "command", "true", "shell_session", "a b"); !strings.Contains(text, "shell_session must be 1 to 64 letters") {
		t.Errorf("refused with %q", text)
	}
}
