//go:build unix

package main

import (
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
)

// runs starts a command and returns the id of its job.
func (s *started) runs(command string, args ...any) string {
	s.t.Helper()
	r := s.do("execute_command_async", append(args, "command", command, "wait_seconds", 0)...)
	id := r.Header("Job ID")
	s.t.Cleanup(func() { s.do("cancel_job", "job_id", id, "force", true) })
	return id
}

// awaits waits for a job with conditions.
func (s *started) awaits(id string, args ...any) client.Reply {
	s.t.Helper()
	return s.do("wait_for_jobs", append(args, "job_ids", []string{id}, "wait_seconds", 100)...)
}

// headerBelow returns the first header line of that name in any of the blocks of a reply.
func headerBelow(r client.Reply, name string) string {
	_, line, _ := strings.Cut(string(r), "\n"+name+": ")
	line, _, _ = strings.Cut(line, "\n")
	return line
}

func says(t *testing.T, r client.Reply, name, want string) {
	t.Helper()
	if got := headerBelow(r, name); got != want {
		t.Errorf("%s is %q, want %q:\n%s", name, got, want, r)
	}
}

// A server is waited for by the line that it prints, and the reply has its port.
func TestWaitForAServerToListen(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	id := s.runs("exec " + realPython() + " -u -m http.server 0 --bind 127.0.0.1")
	r := s.awaits(id, "pattern", `on (?P<host>[\d.]+) port (\d+)`)
	holds(t, r, "Condition", "met: job "+id+" matches pattern")
	if got := headerBelow(r, "Matched"); !strings.HasPrefix(got, "stdout 0: Serving HTTP on 127.0.0.1 port ") {
		t.Errorf("matched %q", got)
	}
	says(t, r, "Captured", "host=127.0.0.1")
	port := strings.TrimPrefix(headerBelow(r, "Captured: host=127.0.0.1\nCaptured"), "2=")
	if n, err := strconv.Atoi(port); err != nil || n == 0 {
		t.Errorf("port %q:\n%s", port, r)
	}
}

// The wait sees a match in the middle of a flood, in a prompt, and in a line that comes in parts.
func TestWaitForOutputOfPrograms(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, tt := range []struct{ name, command, pattern, matched, captured string }{
		{"flood", `seq 200000; echo "the $((6*7)) needle"; seq 200000; sleep 300`, `the (\d+) needle`, "stdout 1488895: the 42 needle", "1=42"},
		{"prompt", `read -p "Overwrite? [y/N] " x`, `\[(.)/(.)\] $`, "stdout 0: Overwrite? [y/N] ", "1=y"},
		{"parts", `printf 'Listening '; sleep 0.2; printf 'on 80'; sleep 0.2; printf '80 now'; sleep 300`, `Listening on (\d+) now`, "stdout 0: Listening on 8080 now", "1=8080"},
		{"bar", `for i in 1 2 3; do printf "\r$i of 3 "; sleep 0.1; done; printf "\rall 3 of 3"; sleep 300`, `^all`, "stdout *all 3 of 3", ""},
	} {
		id := s.runs(tt.command)
		r := s.awaits(id, "pattern", tt.pattern)
		holds(t, r, "Condition", "met: job "+id+" matches pattern")
		before, after, _ := strings.Cut(tt.matched, "*")
		if got := headerBelow(r, "Matched"); !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
			t.Errorf("%s: matched %q, want %q", tt.name, got, tt.matched)
		}
		if got := headerBelow(r, "Captured"); got != tt.captured {
			t.Errorf("%s: captured %q, want %q", tt.name, got, tt.captured)
		}
	}
	text := s.refused("wait_for_jobs", "job_ids", []string{s.runs("sleep 300"), s.runs("sleep 300")}, "pattern", "x", "cursor", 1)
	if !strings.Contains(text, "cursor needs one job id: each job has cursors of its own.") {
		t.Errorf("a cursor of two jobs: %s", text)
	}
}
