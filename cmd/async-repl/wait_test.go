//go:build unix

package main

import (
	"fmt"
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

// A build that prints an error ends the wait as stopped, and a later wait continues after it.
func TestWaitStopsAtAnError(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	step := func(name string) {
		s.write(name, "")
	}
	const until = `until [ -e %s ]; do sleep 0.05; done; `
	id := s.runs(fmt.Sprintf("echo compiling; "+until+"echo 'main.c:3: error: no such file'; "+until+"echo done; sleep 300", "one", "two"), "tty", false)
	going, err := s.Start("wait_for_jobs", map[string]any{"job_ids": []string{id}, "pattern": "done", "stop_pattern": "error:", "wait_seconds": 100})
	if err != nil {
		t.Fatal(err)
	}
	step("one")
	r, err := going.Reply(s.ctx())
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r, "Condition", "stopped: job "+id+" matches stop_pattern")
	says(t, r, "Matched", "stdout 10: main.c:3: error: no such file")
	says(t, r, "Next", "wait_for_jobs(job_ids=[…], pattern=…, stop_pattern=…, cursor=40)")
	step("two")
	r = s.awaits(id, "pattern", "done", "stop_pattern", "error:", "cursor", 40)
	holds(t, r, "Condition", "met: job "+id+" matches pattern")
	says(t, r, "Matched", "stdout 40: done")
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
}

// An ended job that never matched is answered at once, and so is one that did; a quiet job ends the
// wait too.
func TestWaitForEndedAndQuietJobs(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	id := s.do("execute_command_async", "command", "echo 'all is well'", "wait_seconds", 100).Header("Job ID")
	r := s.awaits(id, "pattern", "error")
	holds(t, r, "Condition", "not met: job "+id+" completed without a match of pattern")
	r = s.awaits(id, "pattern", "all (.*)")
	holds(t, r, "Condition", "met: job "+id+" matches pattern")
	says(t, r, "Captured", "1=is well")
	python := s.do("execute_python", "code", "print('one')\n'two'", "wait_seconds", 100).Header("Job ID")
	says(t, s.awaits(python, "pattern", "two"), "Matched", "result 4: 'two'")

	_, err := s.Call(s.ctx(), "wait_for_jobs", map[string]any{"job_ids": []string{id, python}, "pattern": "x", "cursor": 1})
	if err == nil || !strings.Contains(err.Error(), "cursor needs one job id: each job has cursors of its own.") {
		t.Errorf("a cursor of two jobs: %v", err)
	}

	sleeps := s.runs("echo working; sleep 300")
	r = s.awaits(sleeps, "pattern", "ready", "quiet_seconds", 0.1)
	holds(t, r, "Condition", "met: job "+sleeps+" has printed nothing for 0.10s")
	says(t, r, "Next", "wait_for_jobs(job_ids=[…], pattern=…, cursor=0)")
}
