package pyrepl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/jobs/jobstest"
)

// works tries what every session must do, on whatever interpreter and in whatever environment. A
// first job has been run.
func (b *bench) works() {
	b.t.Helper()
	b.want("import asyncio, subprocess, sys, time\nkept = 'é中'", "completed")
	b.result("6 * 7", "42")
	j := b.start("print(kept); sys.stderr.write('err\\n')\nNone")
	jobstest.End(b.t, j)
	if out, errs := jobstest.Stream(j, output.Stdout), jobstest.Stream(j, output.Stderr); out != "é中\n" || errs != "err\n" {
		b.t.Errorf("output %q, errors %q", out, errs)
	}
	if _, out := b.want("def f(): raise ValueError('é')\nf()", "failed (ValueError: é)"); !strings.Contains(out, "def f(): raise ValueError('é')\n") || strings.Contains(out, "async-repl") {
		b.t.Errorf("the traceback is %q", out)
	}
	b.result("await asyncio.sleep(0.001, 'slept')", "'slept'")
	b.showsSources()
	b.givesHints()
	b.result("subprocess.run(['echo', 'child'], stdout=subprocess.PIPE).stdout", `b'child\n'`)
	b.answer("input('name? ')", "name? ", "é中", "'é中'")
	for _, code := range []string{"time.sleep(300)", "await asyncio.sleep(300)"} {
		b.interrupt(b.startUntil("print('on', flush=True)\n"+code, "on"))
	}
	b.want("sys.exit(3)", "failed (exit 3; variables kept)")
	b.result("kept", "'é中'")
	if v, err := b.s.Variables(b.t.Context(), ""); err != nil || v.Total < 2 {
		b.t.Errorf("variables: %+v, %v", v, err)
	}
}

// files writes files of these names and texts into a new directory.
func files(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		processtest.WriteProgram(t, path, text) // one of them can be the interpreter
	}
	return dir
}

// The variables that Python itself reads are the user's, and the session works with each.
func TestEnvironments(t *testing.T) {
	if testing.Short() {
		t.Skip("many sessions")
	}
	tests := map[string][]string{
		"startup":   {"PYTHONSTARTUP=/dev/stdin", "PYTHONINSPECT=1", "PYTHONSAFEPATH=1"}, // no session runs PYTHONSTARTUP: it is for a terminal
		"warnings":  {"PYTHONWARNINGS=error"},
		"latin-1":   {"PYTHONIOENCODING=latin-1"},
		"C locale":  {"LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0"},
		"optimized": {"PYTHONOPTIMIZE=2", "PYTHONDONTWRITEBYTECODE=1"},
		"developer": {"PYTHONDEVMODE=1", "PYTHONTRACEMALLOC=5", "PYTHONASYNCIODEBUG=1", "PYTHONMALLOC=debug"},
		"no TERM":   {"TERM=", "HOME=", "TMPDIR=/nonexistent"},
	}
	for name, env := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a wörkspace 中")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			b := newBenchIn(t, dir, env...)
			if _, out := b.want("import os; os.getcwd() and None", "completed"); out != "" {
				t.Errorf("it starts with %q", out)
			}
			b.works()
		})
	}
}

// What the site of an interpreter does at its start, it does to the first job at most.
func TestSites(t *testing.T) {
	if testing.Short() {
		t.Skip("many sessions")
	}
	tests := map[string]struct{ file, text, output string }{
		"prints":      {"sitecustomize.py", "import sys; print('out'); print('out again')", "out\nout again\n"},
		"user prints": {"usercustomize.py", "print('out')", ""}, // only where the user's site is enabled
		"fails":       {"sitecustomize.py", "1 / 0", "ZeroDivisionError: division by zero\n"},
		"threads":     {"sitecustomize.py", "import io, sys, threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\nsys.stdout = sys.__stdout__ = io.StringIO(); sys.stderr = None; sys.stdin = None", ""},
		"builtins":    {"sitecustomize.py", "import builtins\ndef wrap(f): return lambda *a, **k: f(*a, **k)\nfor n in ('print', 'input', '__import__', 'open', 'repr'): setattr(builtins, n, wrap(getattr(builtins, n)))", ""},
		"hooks":       {"sitecustomize.py", "import sys\nsys.excepthook = sys.unraisablehook = sys.displayhook = lambda *a: None\nclass F:\n    @staticmethod\n    def find_spec(*a): pass\nsys.meta_path.insert(0, F)", ""},
		"signals":     {"sitecustomize.py", "import signal\nfor s in (signal.SIGINT, signal.SIGURG, signal.SIGIO): signal.signal(s, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))", ""},
		"heavy":       {"sitecustomize.py", "import threading, multiprocessing.pool, concurrent.futures.process, asyncio, pdb, getpass, linecache, traceback\nasyncio.set_event_loop(asyncio.new_event_loop())", ""},
		"shadows":     {"_json.py", "raise Exception('the user')", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts := map[string]string{test.file: test.text}
			for _, shadow := range []string{"asyncio", "json", "socket", "_socket", "fcntl", "termios", "traceback", "signal"} { // not linecache: from 3.13 on the interpreter itself needs it for -c
				if name == "shadows" {
					texts[shadow+".py"] = test.text
				}
			}
			b := newBenchOn(t, realPython(t), t.TempDir(), "PYTHONPATH="+files(t, texts)) // an environment has no user's site
			if _, out := b.want("1", "completed"); !strings.HasSuffix(out, test.output) || test.output == "" && out != "" && name != "user prints" {
				t.Errorf("it starts with %q", out)
			}
			if name != "shadows" {
				b.works()
				return
			}
			b.want("1 / 0", "failed (ZeroDivisionError: division by zero)")
			b.want("import asyncio", "failed (Exception: the user)")
		})
	}
}

// blocker makes an interpreter look like one that was built without modules.
const blocker = `from importlib.machinery import BuiltinImporter, PathFinder
import sys
gone = set(GONE)
for finder in BuiltinImporter, PathFinder:
    def without(name, *args, find=finder.find_spec, **options):
        return None if name in gone else find(name, *args, **options)
    finder.find_spec = without
for name in gone: sys.modules.pop(name, None)
`

// An interpreter without what is optional in its build: no readline, no curses, no ssl, none of the
// C parts that have a Python part.
func TestSmallInterpreters(t *testing.T) {
	if testing.Short() {
		t.Skip("many sessions")
	}
	for name, gone := range map[string]string{
		"libraries": "['readline', '_curses', '_ssl', '_ctypes', '_sqlite3', 'zlib', '_bz2', '_lzma', '_hashlib', '_uuid', '_dbm', '_gdbm', '_tkinter', '_multiprocessing', '_posixshmem', 'resource', 'syslog', 'pyexpat']",
		"C parts":   "['_json', '_asyncio', '_queue', '_bisect', '_heapq', '_pickle', '_datetime', '_decimal', '_elementtree', '_csv', '_random', '_statistics', '_zoneinfo']",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := files(t, map[string]string{"sitecustomize.py": strings.Replace(blocker, "GONE", gone, 1)})
			b := newBenchIn(t, t.TempDir(), "PYTHONPATH="+site)
			b.want("import importlib\nfor name in "+gone+":\n    try: importlib.import_module(name)\n    except ImportError: continue\n    raise Exception(name)", "completed")
			b.works()
		})
	}
}

// An interpreter that does not come up is a clear end with the remedy, and the next job tries
// again.
func TestInterpretersThatDoNotStart(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for interpreters that hang")
	}
	script := func(text string) map[string]string { return map[string]string{"python3": "#!/bin/sh\n" + text + "\n"} }
	site := func(text string) map[string]string { return map[string]string{"sitecustomize.py": text} }
	tests := map[string]struct {
		files map[string]string
		env   []string
		words string
	}{
		"missing":       {files: nil, words: "no such file"},
		"not a program": {files: map[string]string{"python3": "text"}, words: "exec format error"},
		"exits":         {files: script("echo out of order >&2; exit 3"), words: "exited 3 before it was ready: out of order; set REPL_PYTHON"},
		"exits at once": {files: script("exit 0"), words: "exited 0 before it was ready; set REPL_PYTHON"},
		"killed":        {files: script("kill -9 $$"), words: "was killed by SIGKILL before it was ready"},
		"hangs":         {files: script("exec sleep 300"), words: "said nothing for 1s"},
		"reads":         {files: script("read x; exec sleep 300"), words: "said nothing for 1s"},
		"floods":        {files: script("exec yes"), words: "said nothing for 200ms"},
		"site exits":    {files: site("import sys; sys.exit('no licence')"), words: "exited 1 before it was ready"},
		"site hangs":    {files: site("import time; time.sleep(300)"), words: "(sitecustomize, a .pth file) may hang"},
		"site reads":    {files: site("input()"), words: "may hang"},
		"home":          {files: site(""), env: []string{"PYTHONHOME=/nonexistent"}, words: "before it was ready: Fatal Python error: "},
		"no sockets":    {files: site(strings.Replace(blocker, "GONE", "['_socket']", 1)), words: "'_socket'"},
		"not CPython":   {files: site("import sys; sys.implementation.name = 'pypy'"), words: "sessions need CPython, and this is pypy"},
		"too old":       {files: site("import sys; sys.version_info = (3, 8, 1)"), words: "sessions need Python 3.9 or newer, and this is 3.8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := files(t, test.files)
			path, env := filepath.Join(dir, "python3"), test.env
			if _, ok := test.files["sitecustomize.py"]; ok {
				path, env = python(t), append(env, "PYTHONPATH="+dir)
			}
			start := time.Minute
			switch {
			case name == "floods": // each moment of it is much output
				start = 200 * time.Millisecond
			case strings.Contains(test.words, "said") || strings.Contains(test.words, "hang"):
				start = time.Second
			}
			b := newBenchOn(t, path, t.TempDir(), env...)
			b.cfg.Start = start
			b.reconfigured()
			tries := 1
			if name == "exits" {
				tries = 2 // the next job ends alike
			}
			for range tries {
				record, out := b.run("1")
				text := record.Receipt.Text()
				if !strings.HasPrefix(text, "failed (could not start: ") || !strings.Contains(text, test.words) || !strings.Contains(text, "set REPL_PYTHON to") || strings.Contains(text, "PYTHONHOME") != (name == "home") {
					t.Errorf("status %q, want %q; output %.300q", text, test.words, out)
				}
				if strings.Contains(text, "async-repl/") {
					t.Errorf("it shows internals: %q", text)
				}
			}
		})
	}
}

// showsSources checks that inspect finds the functions and the classes of jobs.
func (b *bench) showsSources() {
	b.t.Helper()
	b.want("import inspect, dataclasses, enum\ndef f():\n    return 'f'\nclass C:\n    def m(self): return 1\nFirst = C", "completed")
	b.want("1\n@dataclasses.dataclass\nclass Data:\n    a: int = 0\n    class Inner: pass\nclass C:\n    x = 2\ndef g():\n    class Local(enum.Enum): ONE = 1\n    return Local", "completed")
	for expression, want := range map[string]string{
		"f":          "def f():\n    return 'f'\n",
		"First":      "class C:\n    def m(self): return 1\n",
		"First.m":    "    def m(self): return 1\n",
		"C":          "class C:\n    x = 2\n",
		"Data":       "@dataclasses.dataclass\nclass Data:\n    a: int = 0\n    class Inner: pass\n",
		"Data.Inner": "    class Inner: pass\n",
		"g()":        "    class Local(enum.Enum): ONE = 1\n",
	} {
		record, out := b.run("print(inspect.getsource(" + expression + "), end='')")
		if out != want {
			b.t.Errorf("the source of %s is %q, want %q; %s", expression, out, want, record.Receipt.Text())
		}
	}
	b.result("try: inspect.getsource(type('Made', (), {}))\nexcept (OSError, TypeError): none = True\nnone", "True")
}
