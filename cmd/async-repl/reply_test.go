package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A step in a debugger costs its output and at most 110 characters: what the reader knows of the
// question is not repeated.
func TestDebuggerStepsAreShort(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.write("steps.py", "x = 1\ny = 2\nz = 3\nx = 4\n")
	python := s.do("execute_python", "wait_seconds", 60, "code", "import pdb; pdb.run(open('steps.py').read())")
	shell := s.do("execute_command_async", "wait_seconds", 60, "command", realPython()+" -m pdb steps.py")
	for _, step := range []struct {
		tool, id string
		text     string
	}{
		{"send_python_input", python.Header("Job ID"), "n"},
		{"send_command_input", shell.Header("Job ID"), "n\n"},
	} {
		for range 2 {
			r := s.do(step.tool, "job_id", step.id, "text", step.text, "wait_seconds", 60)
			head, output, _ := strings.Cut(string(r), "--- STDOUT ---\n")
			if n := utf8.RuneCountInString(head) + len("--- STDOUT ---\n"); n > 110 {
				t.Errorf("%s: %d characters of header:\n%s", step.tool, n, r)
			}
			if r.Header("Status") != "waiting_input" || !strings.HasSuffix(output, "\n(Pdb) \n") {
				t.Errorf("%s: not a step:\n%s", step.tool, r)
			}
		}
		r := s.do("check_job_status", "job_id", step.id)
		matches(t, r, map[string]string{"Prompt": `^\(Pdb\) $`, "Waiting": "^(line|key), ", "Next": "^" + step.tool})
	}
}

// A program that draws a full screen asks with it, not with its last line, and every reply shows the
// screen: the first one with the output before it. A read from a cursor before it is a page of text.
func TestFullScreenIsShownAsAScreen(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const draw = `printf '\033[?1049h\033[H\033[2J'; for i in $(seq 2 39); do printf '\033[%d;1H~%119s' $i ''; done; printf '\033[40;1HINSERT'; `
	r := s.do("execute_command_async", "wait_seconds", 60, "command", "echo before; "+draw+
		`read -rn1 key; printf "\033[2;1HINSERT $key"; read -rn1 key; printf '\033[?1049l'; read -rp 'Name? ' name`)
	id := r.Header("Job ID")
	rows := "\n" + strings.Repeat("~\n", 38) + "INSERT\n"
	if r.Header("Status") != "waiting_input" || strings.Contains(string(r), "Prompt:") || r.Section("STDOUT") != "before" ||
		r.Section("SCREEN") != rows || r.Header("Screen") != "40 rows, 120 columns; cursor in row 40, column 7" {
		t.Errorf("execute shows:\n%s", r)
	}
	r = s.do("send_command_input", "job_id", id, "text", "x", "wait_seconds", 60)
	rows = strings.Replace(rows, "~", "INSERT x", 1)
	if r.Section("STDOUT") != "" || strings.Replace(r.Section("SCREEN"), "INSERTx", "INSERT", 1) != rows {
		t.Errorf("after a key:\n%s", r)
	}
	cursor := r.Header("Cursor")
	r = s.do("check_job_status", "job_id", id)
	if r.Section("STDOUT") != "" || r.Section("SCREEN") == "" || r.Header("Omitted") != "8 bytes (cursor 0..8)" || r.Header("Cursor") != cursor {
		t.Errorf("a check shows:\n%s", r)
	}
	if r = s.do("check_job_status", "job_id", id, "cursor", 0); !strings.HasPrefix(r.Section("STDOUT"), "before\n\nINSERT x\n~\n") || r.Section("SCREEN") != "" {
		t.Errorf("a page from the start:\n%s", r)
	}
	if r = s.do("check_job_status", "job_id", id, "view", "text"); !strings.Contains(r.Section("STDOUT"), "INSERT") || r.Section("SCREEN") != "" {
		t.Errorf("as text:\n%s", r)
	}
	if r = s.do("check_job_status", "job_id", id, "view", "raw"); !strings.Contains(r.Section("STDOUT"), `\x1b[40;1HINSERT`) || r.Section("SCREEN") != "" {
		t.Errorf("as bytes:\n%s", r)
	}
	s.do("send_command_input", "job_id", id, "text", "x", "wait_seconds", 60)
	if r = s.do("check_job_status", "job_id", id, "view", "screen"); r.Section("SCREEN") != "before\nName?\n" || r.Header("Screen") != "40 rows, 120 columns; cursor in row 2, column 7" {
		t.Errorf("the main screen:\n%s", r)
	}
	matches(t, s.do("check_job_status", "job_id", id), map[string]string{"Status": "^waiting_input$", "Prompt": `^Name\? $`})
}
