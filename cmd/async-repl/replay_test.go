package main

import (
	"strings"
	"testing"
)

// Code runs in the state after an earlier job, in a new session, by running that job and those
// before it again: only if the client agrees. The session goes its own way from there.
func TestExecuteFromAnEarlierJob(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	do := func(code string, more ...any) (string, string) {
		t.Helper()
		r := s.do("execute_python", append([]any{"code", code, "wait_seconds", 60}, more...)...)
		return r.Header("Job ID"), strings.TrimSpace(r.Section("RESULT"))
	}
	do("x = [1]")
	from, _ := do("x.append(2)")
	last, _ := do("x.append(3); x")
	if text := s.refused("execute_python", "code", "x", "from_job", from); !strings.Contains(text, "must run again (2 jobs, ") || !strings.Contains(text, "rerun=true") {
		t.Errorf("the refusal says %q", text)
	}
	r := s.do("execute_python", "code", "x.append(3); x", "from_job", from, "rerun", true, "wait_seconds", 60)
	if r.Header("Session") != "new, default-2" || strings.TrimSpace(r.Section("RESULT")) != "[1, 2, 3]" ||
		!strings.Contains(string(r), "Note: run again first: 2 jobs in ") || !strings.Contains(string(r), "Note: Same code as job "+last+",") {
		t.Errorf("the reply says\n%s", r)
	}
	do("x.append('other')", "session", "default-2")
	if _, got := do("x"); got != "[1, 2, 3]" {
		t.Errorf("the first session has %s", got)
	}
	if _, got := do("x", "from_job", r.Header("Job ID"), "rerun", true, "session", "third"); got != "[1, 2, 3]" {
		t.Errorf("the replay of a replay has %s", got)
	}
	for _, job := range []string{from, r.Header("Job ID")} {
		if list := string(s.do("list_sessions")); strings.Count(list, ", rerun of job "+job) != 1 || strings.Contains(list, "branch of") {
			t.Errorf("the list does not say which state was made again:\n%s", list)
		}
	}
}
