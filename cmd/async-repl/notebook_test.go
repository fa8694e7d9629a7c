package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A session is taken away as a notebook with its outputs, and as a script that Python runs. Neither
// replaces a file of a person.
func TestExportSession(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	run := func(code string) { s.do("execute_python", "code", code, "session", "lab", "wait_seconds", 60) }
	run("lost = 1")
	s.do("restart_python_worker", "session", "lab")
	run("from __future__ import annotations\nx = [1, 2]\nprint('shown', 'lost' in globals())")
	run("x = (")
	run("1/0")
	run("sum(x)")
	s.do("export_session", "path", "lab.ipynb", "session", "lab")
	text, err := os.ReadFile(filepath.Join(s.dir, "lab.ipynb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"**Python was restarted; variables lost: lost**"`, `"shown False\n"`, `"ename": "ZeroDivisionError"`, `"text/plain": [`, `"3"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in the notebook:\n%s", want, text)
		}
	}
	if reply := s.do("export_session", "path", "lab.ipynb", "session", "lab"); !strings.HasSuffix(reply.Header("Exported"), ", in place of an earlier export") {
		t.Errorf("the second export: %s", reply)
	}
	s.do("export_session", "path", "lab.py", "session", "lab")
	out, err := exec.Command(realPython(), filepath.Join(s.dir, "lab.py")).CombinedOutput()
	if !strings.HasPrefix(string(out), "shown True\n") || !strings.Contains(string(out), "ZeroDivisionError") {
		t.Errorf("the script: %v, %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "mine.py"), []byte("mine = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := s.refused("export_session", "path", "mine.py", "session", "lab"); !strings.HasSuffix(text, "Writing mine.py: it exists and is no export: give another path, or delete it first") {
		t.Errorf("the refusal says %q", text)
	}
}

// A session's notebook, and the files that it ran, bring the session back under another name.
func TestExportedSessionRunsAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	if err := os.WriteFile(filepath.Join(s.dir, "my file.py"), []byte("import sys\nfrom_file = sys.argv[1:]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.do("execute_python", "code", "x = [1, 2]", "wait_seconds", 60)
	s.do("execute_python", "path", "my file.py", "args", []string{"a b", `"c"`}, "wait_seconds", 60)
	s.do("execute_python", "code", "x.append(3); print('again'); x", "wait_seconds", 60)
	s.do("export_session", "path", "lab.ipynb")
	r := s.do("execute_python", "path", "lab.ipynb", "session", "again", "wait_seconds", 60)
	if !strings.HasPrefix(r.Header("Status"), "completed") || !strings.HasSuffix(string(r), "again\n--- RESULT ---\n[1, 2, 3]\n") {
		t.Errorf("the notebook:\n%s", r)
	}
	r = s.do("execute_python", "code", "x, from_file", "session", "again", "wait_seconds", 60)
	if !strings.HasSuffix(string(r), "([1, 2, 3], ['a b', '\"c\"'])\n") {
		t.Errorf("the variables:\n%s", r)
	}
	if list := s.do("list_jobs", "session", "default"); !strings.Contains(string(list), `: "my file.py" "a b" "\"c\""`+"\n") {
		t.Errorf("the list:\n%s", list)
	}
}
