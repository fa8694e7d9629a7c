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
