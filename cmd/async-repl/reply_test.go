package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// A step in a debugger costs its output and at most 110 characters: what the reader knows of the
// question is not repeated.
func TestDebuggerStepsAreShort(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if err := os.WriteFile(filepath.Join(s.dir, "steps.py"), []byte("x = 1\ny = 2\nz = 3\nx = 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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

// A program that draws a full screen asks with it, not with its last line.
func TestFullScreenHasNoPrompt(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const draw = `printf '\033[?1049h\033[H\033[2J'; for i in $(seq 2 39); do printf '\033[%d;1H~%119s' $i ''; done; printf '\033[40;1HINSERT'; `
	r := s.do("execute_command_async", "wait_seconds", 60, "command", draw+`read -rn1 key; printf '\033[?1049l'; read -rp 'Name? ' name`)
	if r.Header("Status") != "waiting_input" || strings.Contains(string(r), "Prompt:") || !strings.HasSuffix(string(r), "\n\n~\nINSERT\n") || len(r) > 300 {
		t.Errorf("the screen costs %d bytes:\n%s", len(r), r)
	}
	s.do("send_command_input", "job_id", r.Header("Job ID"), "text", "x", "wait_seconds", 60)
	matches(t, s.do("check_job_status", "job_id", r.Header("Job ID")), map[string]string{"Status": "^waiting_input$", "Prompt": `^Name\? $`})
}
