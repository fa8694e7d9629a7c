package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
)

// A readline prompt reads single keys, so the terminal would pass an end of file on as a character.
// It is refused, and the refusal names the key that ends the prompt.
func TestEndOfFileAtAReadlinePrompt(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.do("execute_command_async", "command", `bash -c 'read -e -p "name> " x || echo "no name"'`, "wait_seconds", 30)
	holds(t, r, "Status", "waiting_input")
	if got := r.Header("Waiting"); !strings.HasPrefix(got, "key, read by bash") {
		t.Errorf("waits for %q", got)
	}
	id := r.Header("Job ID")
	if text := s.refused("send_command_input", "job_id", id, "eof", true); !strings.Contains(text, `send keys=["ctrl-d"]`) {
		t.Errorf("refused with %q", text)
	}
	r = s.do("send_command_input", "job_id", id, "keys", []string{"ctrl-d"}, "wait_seconds", 30)
	holds(t, r, "Status", "completed")
	if !strings.Contains(string(r), "no name") {
		t.Errorf("the prompt was not ended:\n%s", r)
	}
}

// A reply about a job with a stopped process names the process and, unless a shell with job control
// has already waited for the stop, the signal.
func TestStoppedProcessIsNamed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for line, want := range map[string]string{
		`exec python3 -c "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"`: "stopped (SIGSTOP), python3 (pid ",
		`set -m; cat & wait; sleep 300`:                                             "stopped, cat (pid ",
	} {
		id := s.do("execute_command_async", "command", line, "wait_seconds", 0).Header("Job ID")
		polltest.Check(t, func() error {
			r := s.do("check_job_status", "job_id", id)
			if strings.HasPrefix(r.Header("Activity"), want) {
				return nil
			}
			return fmt.Errorf("%s:\n%s", line, r)
		})
	}
}

// serving is Python that listens on a port and never ends. Its last line says the address.
const serving = `import socket, time
s = socket.create_server(("127.0.0.1", 0))
print("address %s:%d." % s.getsockname(), flush=True)
time.sleep(1000)`

// A job that begins to listen says so, and a call that starts it is answered long before the end of
// its wait, which would be 100 s.
func TestServerEndsTheWaitOfItsCall(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_GRACE=100s")
	command := func(tty bool) []any {
		return []any{"command", "echo starting; python3 -c '" + serving + "'", "tty", tty}
	}
	for name, start := range map[string]func() client.Reply{
		"terminal": func() client.Reply { return s.do("execute_command_async", command(true)...) },
		"pipes":    func() client.Reply { return s.do("execute_command_async", command(false)...) },
		"python":   func() client.Reply { return s.do("execute_python", "code", serving) },
	} {
		begin := time.Now()
		r := start()
		holds(t, r, "Status", "running")
		if d := time.Since(begin); d > 60*time.Second {
			t.Errorf("%s: answered after %v", name, d)
		}
		_, after, _ := strings.Cut(string(r), "address ")
		address, _, _ := strings.Cut(after, ".\n")
		if got := r.Header("Listening"); address == "" || !strings.HasPrefix(got, address+" (python") {
			t.Errorf("%s: it listens on %q:\n%s", name, got, r)
		}
		s.do("cancel_job", "job_id", r.Header("Job ID"))
		if r = s.end(r.Header("Job ID")); r.Header("Listening") != "" {
			t.Errorf("%s: it listens after its end:\n%s", name, r)
		}
	}
}

// A server on the session's event loop answers only while a job awaits. A note says so and no
// Listening does, of the job that has left it and of a job that runs.
func TestServersOfTheEventLoop(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const code = "import asyncio, time\nserver = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)\nprint('%s:%d' % server.sockets[0].getsockname())"
	run := func(code string) client.Reply { return s.end(s.do("execute_python", "code", code).Header("Job ID")) }
	note := func(r client.Reply) string {
		_, address, _ := strings.Cut(string(r), "--- STDOUT ---\n")
		address, _, _ = strings.Cut(address, "\n")
		return "the session's event loop serves " + address + ": it answers only while a job awaits"
	}
	r := run(code)
	holds(t, r, "Status", "completed", "Note", note(r))
	holds(t, run("await asyncio.sleep(0)"), "Status", "completed", "Note", "")
	for _, code := range []string{code + "\ntime.sleep(1000)", code + "\nawait server.serve_forever()"} {
		id := s.do("execute_python", "code", code, "wait_seconds", 100).Header("Job ID") // ends with the wait for a server
		polltest.Check(t, func() error {
			if r = s.do("check_job_status", "job_id", id); r.Header("Note") != "" {
				return nil
			}
			return fmt.Errorf("it has no note:\n%s", r) // it listens before the loop knows of it
		})
		holds(t, r, "Status", "running", "Note", note(r), "Listening", "")
		s.do("cancel_job", "job_id", id)
		s.end(id)
	}
	holds(t, run("server.close(); await asyncio.sleep(0)"), "Status", "completed", "Note", "")
}

// A port that a short job opened is not the next job's, and does not end its wait.
func TestListenerOfAShortJobIsNotNamed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, code := range []string{"import socket, time", "1", "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()"} {
		s.do("execute_python", "code", code, "wait_seconds", 60)
	}
	r := s.do("execute_python", "code", "time.sleep(0.5)", "wait_seconds", 60)
	holds(t, r, "Status", "completed", "Listening", "")
}

// A later job of a session does not name the listeners of an earlier one, and they do not end its
// wait.
func TestListenersOfEarlierJobsAreNotNamed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.do("execute_python", "code", "import socket, threading\nserver = socket.create_server(('127.0.0.1', 0))\ninput('go on? ')", "wait_seconds", 60)
	id := r.Header("Job ID")
	polltest.Check(t, func() error {
		if r = s.do("check_job_status", "job_id", id); r.Header("Listening") != "" {
			return nil
		}
		return fmt.Errorf("it does not listen:\n%s", r)
	})
	s.do("send_python_input", "text", "yes", "job_id", id, "wait_seconds", 60)
	r = s.do("execute_python", "code", "import time; time.sleep(1)", "wait_seconds", 60)
	holds(t, r, "Status", "completed", "Listening", "")
}
