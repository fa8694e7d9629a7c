package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// A job without a terminal of its own has no screen, and the refusal says what to use instead.
func TestScreenOfAJobWithoutOneIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	pipes := s.do("execute_command_async", "command", "echo one", "tty", false, "wait_seconds", 60).Header("Job ID")
	python := s.do("execute_python", "code", "print('one')", "wait_seconds", 60).Header("Job ID")
	terminal := s.do("execute_command_async", "command", "echo one", "wait_seconds", 60).Header("Job ID")
	for _, tt := range []struct {
		args []any
		want string
	}{
		{[]any{"job_id", pipes, "view", "screen"}, "Job " + pipes + " has no terminal, so there is no screen. Use view=text."},
		{[]any{"job_id", python, "view", "screen"}, "Job " + python + " is a Python job, which has no screen. Use view=text."},
		{[]any{"job_id", terminal, "view", "screen", "cursor", 1}, "view=screen shows the screen as it is now, at no cursor. Leave cursor out, or use view=text."},
		{[]any{"job_id", terminal, "view", "html"}, "view must be one of: text, screen, raw."},
	} {
		if r := s.refused("check_job_status", tt.args...); !strings.HasSuffix(r, tt.want) {
			t.Errorf("%v:\n%s\nwant %s", tt.args, r, tt.want)
		}
	}
	if r := s.do("check_job_status", "job_id", python, "view", "raw"); r.Section("STDOUT") != "one\\n\n" {
		t.Errorf("the bytes of a Python job:\n%s", r)
	}
}

// The screen of an ended job is as its program has left it, also as a resource, and it has the size
// that the terminal had last.
func TestScreenOfAnEndedJob(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r := s.do("execute_command_async", "command", `stty rows 10 cols 30; printf '\033[H\033[2Jone\033[10;28Hend'`, "wait_seconds", 60)
	id := r.Header("Job ID")
	rows := "one\n" + strings.Repeat("\n", 8) + strings.Repeat(" ", 27) + "end\n"
	r = s.do("check_job_status", "job_id", id, "view", "screen")
	if r.Header("Screen") != "10 rows, 30 columns; cursor in row 10, column 30" || r.Section("SCREEN") != rows || r.Section("STDOUT") != "" {
		t.Errorf("the screen:\n%s", r)
	}
	raw, err := s.Request(s.ctx(), "resources/read", map[string]any{"uri": "job://" + id + "/output?view=screen"})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Contents []struct {
			Text string
			Meta map[string]map[string]any `json:"_meta"`
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil || len(got.Contents) != 1 {
		t.Fatalf("%s: %v", raw, err)
	}
	about := got.Contents[0].Meta["async-repl/output"]
	if got.Contents[0].Text != rows || about["rows"] != 10.0 || about["cursor_column"] != 30.0 || about["status"] != "completed" || about["incomplete"] != nil {
		t.Errorf("the resource: %s", raw)
	}
}
