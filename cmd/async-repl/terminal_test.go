package main

import (
	"strings"
	"testing"
	"time"
)

// A readline prompt reads single keys. An end of file, which the terminal would pass on as a
// character, is refused, and the refusal names the key that ends the prompt.
func TestEndOfFileAtAReadlinePrompt(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.do("execute_command_async", "command", `bash -c 'read -e -p "name> " x || echo "no name"'`, "wait_seconds", 30)
	holds(t, r, "Status", "waiting_input")
	if got := r.Header("Waiting"); !strings.HasPrefix(got, "key, read by bash") {
		t.Errorf("waits for %q", got)
	}
	id := r.Header("Job ID")
	if text := s.refused("send_command_input", "job_id", id, "eof", true); !strings.Contains(text, `send text="\x04"`) {
		t.Errorf("refused with %q", text)
	}
	r = s.do("send_command_input", "job_id", id, "text", "\x04", "wait_seconds", 30)
	holds(t, r, "Status", "completed")
	if !strings.Contains(string(r), "no name") {
		t.Errorf("the prompt was not ended:\n%s", r)
	}
}

// A reply about a job with a stopped process names the process and, if the kernel still shows it,
// the signal. A shell with job control has taken the news.
func TestStoppedProcessIsSaid(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for line, want := range map[string]string{
		`exec python3 -c "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"`: "stopped (SIGSTOP), python3 (pid ",
		`set -m; cat & wait; sleep 300`:                                             "stopped, cat (pid ",
	} {
		id := s.do("execute_command_async", "command", line, "wait_seconds", 0).Header("Job ID")
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			r := s.do("check_job_status", "job_id", id)
			if strings.HasPrefix(r.Header("Activity"), want) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s:\n%s", line, r)
			}
		}
	}
}
