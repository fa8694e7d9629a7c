package pyrepl_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
	"asyncrepl/pyrepl"
)

// runFile runs a file to its end.
func (b *bench) runFile(path string, args ...string) (jobs.Record, string) {
	b.t.Helper()
	j := jobstest.Start(b.t, b.r, jobs.Spec{Kind: jobs.Python, Session: b.s.Name(), Title: path}, b.s.ExecFile(pyrepl.File{Path: path, Args: args}))
	return jobstest.End(b.t, j), jobstest.Output(j)
}

// A file runs as Python would run it, in the session's directory and namespace, and its session's
// history has a line that runs it again in a notebook.
func TestFilesAreRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	write(t, b.cfg.Dir, "my script.py", "import sys\nkept = sys.argv\nprint(__name__, kept)\n1 / len(kept[1:])")
	b.run("import os; os.chdir('/')")
	path := filepath.Join(b.cfg.Dir, "my script.py")
	record, out := b.runFile("my script.py", "-x", "a b", "")
	if want := "__main__ ['" + path + "', '-x', 'a b', '']\n"; record.Receipt.Text() != "completed" || out != want {
		t.Errorf("%s: %q, want %q", record.Receipt.Text(), out, want)
	}
	b.result("kept[1:]", "['-x', 'a b', '']")
	record, out = b.runFile(path)
	if got := record.Receipt.Text(); got != "failed (ZeroDivisionError: division by zero)" || !strings.Contains(out, path+"\", line 4, in <module>\n    1 / len(kept[1:])\n") {
		t.Errorf("%s: %s", got, out)
	}
	write(t, b.cfg.Dir, "book.ipynb", `{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["x = 2\n", "x + 1"]}, {"cell_type": "code", "source": "x * 5"}]}`)
	record, out = b.runFile("book.ipynb")
	if record.Result != "10" || !strings.HasPrefix(out, "3\n") {
		t.Errorf("%s: result %q, output %q", record.Receipt.Text(), record.Result, out)
	}
	record, _ = b.runFile("missing.py")
	if got, want := record.Receipt.Text(), "failed (there is no file "+filepath.Join(b.cfg.Dir, "missing.py")+")"; got != want {
		t.Errorf("status %q, want %q", got, want)
	}
	b.result("x", "2")
	var codes []string
	for _, e := range b.s.History().Entries {
		if strings.HasPrefix(e.Code(), "%") {
			codes = append(codes, e.Code())
			if !e.Uncompiled {
				t.Errorf("%s passes for Python", e.Code())
			}
		}
	}
	if got, want := strings.Join(codes, "; "), `%run -i "my script.py" -x "a b" ""; %run -i `+`"`+path+`"; %run -i book.ipynb; %run -i missing.py`; got != want {
		t.Errorf("history %s, want %s", got, want)
	}
}

// A traceback shows the lines that ran, even if the file is another one by now; later jobs that
// import it see the lines on disk.
func TestTracebackOfAFileThatChanges(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.cfg.Dir, "slow.py")
	const code = "import linecache\nopen(__file__, 'w').write('\\n' * 9 + 'x = 1 + 1')\nlinecache.checkcache(__file__)\nraise ValueError('here')"
	write(t, b.cfg.Dir, "slow.py", code)
	record, out := b.runFile("slow.py")
	if !strings.Contains(out, "line 4, in <module>\n    raise ValueError('here')\n") {
		t.Errorf("output %s", out)
	}
	if x := record.Receipt.Exception; x == nil || len(x.Frames) != 1 || x.Frames[0].Source != "raise ValueError('here')" {
		t.Errorf("exception %+v", x)
	}
	b.result("import linecache; linecache.checkcache(); linecache.getline("+strconv.Quote(path)+", 10)", `'x = 1 + 1\n'`)
}
