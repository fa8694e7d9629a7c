package pystack_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/must"
)

func TestSources(t *testing.T) {
	workspace, other := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	link := filepath.Join(workspace, "link.py")
	secret := write(other, "secret.py", "secret\n")
	must.Do(t, os.Symlink(secret, link))
	fifo := filepath.Join(workspace, "fifo.py")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	train := write(workspace, "train.py", "import x\r\n\r\n\tstep()  \rlast")
	book := write(workspace, "book.ipynb", `{"cells": [{"source": ["# title"]}, {"source": ["import x\n", "  x.step()\n"]}, {"source": "one = 1\ntwo = 2"}, {}]}`)
	s := pystack.Sources{
		Code: func(file string) (string, bool) { return "a = 1\n  b = 2", file == "<job 1>" },
		Dirs: []string{workspace},
	}
	for _, c := range []struct {
		name, file string
		line       int
		want       string
	}{
		{"code of the session", "<job 1>", 2, "b = 2"},
		{"other code without a file", "<job 2>", 1, ""},
		{"a file", train, 3, "step()"},
		{"its last line", train, 4, "last"},
		{"a line it does not have", train, 5, ""},
		{"no line", train, 0, ""},
		{"a relative name", "train.py", 1, "import x"},
		{"a name that leads out", "../" + filepath.Base(other) + "/secret.py", 1, ""},
		{"a file elsewhere", secret, 1, ""},
		{"a cell of a notebook", book + ", cell 2", 2, "x.step()"},
		{"a cell that is one text", book + ", cell 3", 2, "two = 2"},
		{"a cell without code", book + ", cell 4", 1, ""},
		{"a cell that it does not have", book + ", cell 5", 1, ""},
		{"no cell", book + ", cell 0", 1, ""},
		{"a cell of a notebook elsewhere", write(other, "o.ipynb", `{"cells": [{"source": "secret"}]}`) + ", cell 1", 1, ""},
		{"a cell of what is no notebook", write(workspace, "no.ipynb", `{`) + ", cell 1", 1, ""},
		{"a link that leads out", link, 1, ""},
		{"a FIFO", fifo, 1, ""},
		{"a directory", workspace, 1, ""},
		{"a missing file", filepath.Join(workspace, "gone.py"), 1, ""},
		{"a name with a NUL", workspace + "/a\x00.py", 1, ""},
		{"an empty name", "", 1, ""},
		{"a large file", write(workspace, "large.py", strings.Repeat("x = 1\n", 300_000)), 1, ""},
		{"lines of old", write(workspace, "old.py", "a\rb\rc"), 2, "b"},
		{"a long line", write(workspace, "long.py", strings.Repeat("x", 500)), 1, strings.Repeat("x", 200) + "…"},
		{"no UTF-8", write(workspace, "latin.py", "# \xe9\n"), 1, "# �"},
	} {
		got := s.Lines([]pystack.Frame{{Place: pystack.Place{File: c.file}, Line: c.line}})
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

// A line is not shown if the file has changed since the program began, or since Python imported it.
func TestSourcesThatHaveChanged(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().Truncate(time.Second)
	write := func(name, text string, at time.Time) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		must.Do(t, os.Chtimes(path, at, at))
		return path
	}
	cached := func(name string, flags uint32, at time.Time, size uint32) string {
		var head []byte
		for _, n := range []uint32{0xcafe, flags, uint32(at.Unix()), size} {
			head = binary.LittleEndian.AppendUint32(head, n)
		}
		write("__pycache__/"+name+".cpython-311.pyc", string(head), at)
		return write(name+".py", "pass\n", began)
	}
	write("__pycache__/short.cpython-311.pyc", "short", began)
	for _, c := range []struct {
		name, file string
		want       string
	}{
		{"as it was", write("old.py", "pass\n", began), "pass"},
		{"changed since", write("new.py", "pass\n", began.Add(time.Second)), ""},
		{"imported as it is", cached("same", 0, began, 5), "pass"},
		{"changed since its import", cached("stale", 0, began.Add(-time.Second), 5), ""},
		{"of another length", cached("longer", 0, began, 9), ""},
		{"cached by its hash", cached("hashed", 1, began.Add(-time.Second), 9), "pass"},
		{"with a damaged cache", write("short.py", "pass\n", began), "pass"},
	} {
		s := pystack.Sources{Code: func(string) (string, bool) { return "", false }, Dirs: []string{dir}, Since: began, Tag: "cpython-311"}
		if got := s.Lines([]pystack.Frame{{Place: pystack.Place{File: c.file}, Line: 1}}); got[0] != c.want {
			t.Errorf("%s: %q; want %q", c.name, got[0], c.want)
		}
	}
}

// A stack of many files costs no more than it may: those of the innermost frames are read.
func TestSourcesAreBounded(t *testing.T) {
	dir := t.TempDir()
	var frames []pystack.Frame
	for i := range 64 {
		path := filepath.Join(dir, strings.Repeat("a", i+1))
		must.Do(t, os.WriteFile(path, []byte("pass\n"), 0o600))
		frames = append(frames, pystack.Frame{Place: pystack.Place{File: path}, Line: 1})
	}
	got := pystack.Sources{Code: func(string) (string, bool) { return "", false }, Dirs: []string{dir}}.Lines(frames)
	if got[63] != "pass" || got[0] != "" {
		t.Errorf("the lines are %q", got)
	}
}

// A call is named if its instruction can be nothing else than that call, and its function has a name.
func TestCalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ code, call, want string }{
		{"u, s, vh = np.linalg.svd(a, full_matrices=False)", "np.linalg.svd(a, full_matrices=False)", "np.linalg.svd"},
		{"print(sum(iter(int, 1)))", "sum(iter(int, 1))", "sum"},
		{"if f(')', \"\\\")\")  # x", "f(')', \"\\\")\")", "f"},
		{"x = f(\n  1,  # :)\n  g(2),\n)", "f(\n  1,  # :)\n  g(2),\n)", "f"},
		{"a @ b", "a @ b", ""},
		{"f(x)(y)", "f(x)(y)", ""},
		{"f(x) + g(y)", "f(x) + g(y)", ""},
		{"f(x).g(y)", "g(y)", ""},
		{"a[0](y)", "a[0](y)", ""},
		{"for x in f(y): pass", "f(y)", ""},
		{"with f(y): pass", "f(y)", ""},
		{"await f(y)", "f(y)", ""},
		{"yield from f(y)", "f(y)", ""},
		{"@f(y)", "f(y)", ""},
		{"é = f(y)", "f(y)", "f"},
	} {
		begin := strings.Index(c.code, c.call)
		end := begin + len(c.call)
		at := pystack.Span{Line: 1, Column: begin, EndLine: 1 + strings.Count(c.call, "\n"), EndColumn: end - strings.LastIndex(c.code[:end], "\n") - 1}
		s := pystack.Sources{Code: func(string) (string, bool) { return c.code + "\n", true }}
		if got := s.Called(pystack.Frame{Span: at}); got != c.want {
			t.Errorf("%q calls %q; want %q", c.code, got, c.want)
		}
	}
	beyond := pystack.Span{Line: 1, Column: 9, EndLine: 1, EndColumn: 12}
	s := pystack.Sources{Code: func(string) (string, bool) { return "f()\n", true }}
	if got := s.Called(pystack.Frame{Span: beyond}); got != "" {
		t.Errorf("beyond the line: %q", got)
	}
}
