package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A session's notebook, and the files that it ran, bring the session back under another name.
func TestExportedSessionRunsAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.write("my file.py", "import sys\nfrom_file = sys.argv[1:]\n")
	s.do("execute_python", "code", "x = [1, 2]", "wait_seconds", 60)
	s.write("odd.py", "import sys\nodd = sys.argv[1:]\n")
	s.do("execute_python", "path", "my file.py", "args", []string{"a b", `"c"`, "\u00a0\t", `\n;`}, "wait_seconds", 60)
	s.do("execute_python", "path", "odd.py", "args", []string{"*.py", "{x}", "$HOME", "a\nb"}, "wait_seconds", 60)
	s.do("execute_python", "code", "x.append(4)\n1/0", "wait_seconds", 60)
	s.do("execute_python", "code", "x = (", "wait_seconds", 60)
	s.do("execute_python", "code", "class M:\n    def _repr_markdown_(self): return '**bold**'\nM()", "wait_seconds", 60)
	s.do("execute_python", "code", "import sys; sys.exit(3)", "wait_seconds", 60)
	s.do("execute_python", "code", "x.remove(4); x.append(3); print('again'); x", "wait_seconds", 60)
	s.do("export_session", "path", "lab.ipynb")
	if text, err := os.ReadFile(filepath.Join(s.dir, "lab.ipynb")); err != nil || !strings.Contains(string(text), `"text/markdown": [`) {
		t.Errorf("no Markdown in the notebook: %v\n%s", err, text)
	}
	r := s.do("execute_python", "path", "lab.ipynb", "session", "again", "wait_seconds", 60)
	if !strings.HasPrefix(r.Header("Status"), "completed") || !strings.Contains(string(r), "ZeroDivisionError") || !strings.HasSuffix(string(r), "\n--- RESULT ---\n[1, 2, 3]\n") {
		t.Errorf("the notebook:\n%s", r)
	}
	r = s.do("execute_python", "code", "x, from_file, odd", "session", "again", "wait_seconds", 60)
	if !strings.HasSuffix(string(r), `([1, 2, 3], ['a b', '"c"', '\xa0\t', '\\n;'], ['*.py', '{x}', '$HOME', 'a\nb'])`+"\n") {
		t.Errorf("the variables:\n%s", r)
	}
	if list := s.do("list_jobs", "session", "default"); !strings.Contains(string(list), `: "my file.py" "a b" "\"c\"" "`) {
		t.Errorf("the list:\n%s", list)
	}
}

// The notebook and the script of a session run to their end, although jobs of it have ended Python,
// were stopped, or were to run what is no file.
func TestExportOfHarmfulJobsRunsToItsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("runs what it exports in new interpreters")
	}
	t.Parallel()
	s := startServer(t)
	fifo := filepath.Join(s.dir, "pipe.py")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := func(code string) {
		t.Helper()
		id := s.do("execute_python", "code", "print('begun')\n"+code, "wait_seconds", 0).Header("Job ID")
		s.prints(id, "begun")
		s.cancel(id)
	}
	s.do("execute_python", "code", "import os; os._exit(3)", "wait_seconds", 60)
	stop("while True: pass")
	stop("try:\n    while True: pass\nexcept KeyboardInterrupt: raise ValueError('in the clean-up')")
	stop("try:\n    while True: pass\nexcept KeyboardInterrupt: pass")
	for _, path := range []string{fifo, "/dev/zero", "none.py", s.dir} {
		s.do("execute_python", "path", path, "wait_seconds", 60)
	}
	s.do("execute_python", "code", "kept = 1; quit(2)", "wait_seconds", 60)
	s.do("execute_python", "code", "assert kept and not __import__('sys').stdin.closed; print('the end')", "wait_seconds", 60)
	s.do("export_session", "path", "e.ipynb")
	r := s.do("execute_python", "path", "e.ipynb", "session", "again", "wait_seconds", 60)
	if !strings.HasPrefix(r.Header("Status"), "completed") || r.Section("STDOUT") != "the end\n" {
		t.Errorf("the notebook:\n%s", r)
	}
	s.do("export_session", "path", "e.py")
	if out, err := exec.CommandContext(s.ctx(), realPython(), filepath.Join(s.dir, "e.py")).Output(); err != nil || string(out) != "the end\n" {
		t.Errorf("the script: %v, %s", err, out)
	}
}

// The script and the notebook of a session do what the tools of the namespace and files did to its
// variables.
func TestExportHasWhatToolsAndFilesDid(t *testing.T) {
	t.Parallel()
	s := startServer(t, "REPL_TOOLSETS=all")
	if err := os.Mkdir(filepath.Join(s.dir, "sub dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("sub dir/beside.py", "found = 'beside'\n")
	s.write("sub dir/s.py", "import sys, os, beside\nfrom_file = sys.argv, os.path.basename(__file__), __name__, beside.found, values['n']\nsys.exit(0)\n")
	huge := "1e999"
	if strings.HasSuffix(*transport, "http-newer") {
		huge = "1e308" // the protocol's library refuses a larger number
	}
	value := `{"t": [true, false, null, -1.5e3, ` + huge + `], "n": 123456789012345678901234567890, "s": "true \"null\" \u00e9 é\n"}`
	s.do("execute_python", "code", "kept, gone, _private = 1, 2, 3", "wait_seconds", 60)
	s.do("set_variable", "name", "early", "value", 1)
	s.do("delete_variables", "all", true)
	s.do("execute_python", "code", "assert 'kept' not in globals(); gone = a = 2", "wait_seconds", 60)
	s.do("set_variable", "name", "values", "value", json.RawMessage(value))
	s.do("set_variable", "name", "pair", "value", json.RawMessage(`["\ud83d\ude00", "a\/b", "\ud800"]`))
	s.do("set_variable", "name", "deep", "value", json.RawMessage(strings.Repeat("[", 300)+strings.Repeat("]", 300)))
	s.do("set_variable", "name", "class", "value", 1)
	s.do("delete_variables", "names", []string{"gone", "a", "gone"})
	const show = "print('gone' in globals() or 'early' in globals(), ascii(values), ascii(pair), str(deep).count('['))"
	want := s.do("execute_python", "code", show, "wait_seconds", 60).Section("STDOUT")
	if !strings.HasPrefix(want, "False {'t': [True, False, None, -1500.0, "+map[string]string{"1e999": "inf", "1e308": "1e+308"}[huge]+"]") {
		t.Fatalf("the session has %s", want)
	}
	s.do("export_session", "path", "e.ipynb")
	if got := s.do("execute_python", "path", "e.ipynb", "session", "again", "wait_seconds", 60).Section("STDOUT"); got != want {
		t.Errorf("the notebook: %s, want %s", got, want)
	}
	s.do("execute_python", "path", "sub dir/s.py", "args", []string{`q "1"`, "\n"}, "wait_seconds", 60)
	file := s.do("execute_python", "code", "print(from_file)", "wait_seconds", 60).Section("STDOUT")
	if !strings.HasSuffix(file, "'s.py', '__main__', 'beside', 123456789012345678901234567890)\n") {
		t.Fatalf("the file has %s", file)
	}
	want += file
	s.do("export_session", "path", "e.py")
	run := exec.Command(realPython(), "e.py")
	run.Dir = s.dir
	if out, err := run.CombinedOutput(); err != nil || string(out) != want {
		text, _ := os.ReadFile(filepath.Join(s.dir, "e.py"))
		t.Errorf("the script: %v, %s, want %s\n%s", err, out, want, text)
	}
}
