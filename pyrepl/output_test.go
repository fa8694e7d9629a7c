package pyrepl_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestOutput(t *testing.T) {
	tests := map[string]struct{ code, stdout, stderr string }{
		"line":            {"print('a')", "a\n", ""},
		"no newline":      {"print('a', end='')", "a", ""},
		"long line":       {"print('x' * 300_000)", strings.Repeat("x", 300_000) + "\n", ""},
		"bytes":           {`import sys; sys.stdout.buffer.write(b'\xff\x00\x1b[31m\n')`, "\xff\x00\x1b[31m\n", ""},
		"surrogate":       {`print('\ud800')`, `\ud800` + "\n", ""},
		"stderr":          {"import sys; print('e', file=sys.stderr)", "", "e\n"},
		"fd 1":            {"import os; os.write(1, b'raw'); os.write(2, b'err')", "raw", "err"},
		"C code":          {"import ctypes; c = ctypes.CDLL(None); c.puts(b'from C'); c.fflush(None)", "from C\n", ""},
		"child":           {"import os; os.system('echo out; echo err >&2')", "out\n", "err\n"},
		"order kept":      {"import os, sys; print('1'); os.write(1, b'2\\n'); print('3')", "1\n2\n3\n", ""},
		"fork prints":     {"import os\nprint('a', end='')\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0); print('parent')", "achild\nparent\n", ""},
		"fork, silent":    {"import os, warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('always')\n    pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0) and None", "", ""},
		"fork, pty":       {"import os, pty\npid, fd = pty.fork()\nif pid == 0:\n    print('child'); os._exit(0)\nprint(os.read(fd, 100)); os.waitpid(pid, 0); os.close(fd)", "b'child\\r\\n'\n", ""},
		"fork, dup2":      {"import os, sys\nr, w = os.pipe()\nif os.fork() == 0:\n    os.dup2(w, 1); os.dup2(w, 2); print('out'); print('err', file=sys.stderr); os.system('echo sys'); os._exit(0)\nos.close(w); os.wait(); print(os.read(r, 100)); os.close(r)", "b'out\\nerr\\nsys\\n'\n", ""},
		"fork, traceback": {"import os\nr, w = os.pipe()\nif os.fork() == 0:\n    os.dup2(w, 2); 1 / 0\nos.close(w); os.wait(); print(os.read(r, 1000).splitlines()[-1]); os.close(r)", "b'ZeroDivisionError: division by zero'\n", ""},
		"fork, closed":    {"import os\nif os.fork() == 0:\n    os.close(1)\n    try: print('lost', flush=True)\n    except OSError as error: os.write(2, str(error.errno).encode())\n    os._exit(0)\nos.wait() and None", "", "9"},
		"fork, forked":    {"import os\nif os.fork() == 0:\n    print('child')\n    if os.fork() == 0:\n        print('grandchild'); os._exit(0)\n    os.wait(); os._exit(0)\nos.wait() and None", "child\ngrandchild\n", ""},
		"closed stdout":   {"import sys; sys.stdout.close(); print('still')", "still\n", ""},
		"replaced":        {"import sys, io; sys.stdout = io.StringIO(); print('lost'); sys.stdout = sys.__stdout__; print('back')", "back\n", ""},
		"framing":         {"print('--- STDERR ---')", "--- STDERR ---\n", ""},
		"no display":      {"print('[figure 1: PNG 1x1, job://x/display/1]')", "[figure 1: PNG 1x1, job://x/display/1]\n", ""},
	}
	b := newBench(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := b.start(test.code)
			record := jobstest.End(t, j)
			if record.Status != jobs.Completed {
				t.Errorf("status %s", record.Receipt.Text())
			}
			if got := jobstest.Stream(j, output.Stdout); got != test.stdout {
				t.Errorf("stdout %.300q, want %.300q", got, test.stdout)
			}
			if got := jobstest.Stream(j, output.Stderr); got != test.stderr {
				t.Errorf("stderr %.300q, want %.300q", got, test.stderr)
			}
		})
	}
}

// Two pipes have no order. What was printed before a traceback is kept before it all the same.
func TestTracebacksComeLast(t *testing.T) {
	inFull(t)
	b := newBench(t)
	for range 50 {
		if _, out := b.run("print('p'); 1/0"); !strings.HasPrefix(out, "p\nTraceback") {
			t.Fatalf("output %q", out)
		}
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct{ code, want string }{
		{"", ""},
		{"6 * 7", "42"},
		{"_ + 1", "43"},
		{"x = 1", ""},
		{"None", ""},
		{"x;", "1"},
		{"import asyncio\nawait asyncio.sleep(0, 'slept')", "'slept'"},
		{"def f():\n    '''doc'''\n    return 1\nimport inspect; inspect.getsource(f)", `"def f():\n    '''doc'''\n    return 1\n"`},
		{"__name__", "'__main__'"},
		{"import pickle\nclass C: pass\ntype(pickle.loads(pickle.dumps(C()))) is C", "True"},
		{"from __future__ import annotations", ""},
		{"def g(x: undefined): pass\ng.__annotations__", "{'x': 'undefined'}"},
	} {
		b.result(test.code, test.want)
	}
	record, out := b.want("class R:\n    def __repr__(self): raise ValueError('in repr')\nR()", "failed (ValueError: in repr)")
	if record.HasResult || !strings.Contains(out, "in repr") {
		t.Errorf("result %q, output %q", record.Result, out)
	}
}

// All of a result is in the log, after the output. What is beyond the limit of results is counted.
func TestResultIsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start("print('before')\n'x' * (1 << 20)")
	record := jobstest.End(t, j)
	chunk := j.Log().Read(0, 2<<20)
	if len(chunk.Spans) != 2 || string(chunk.Spans[0].Data) != "before\n" || chunk.Spans[1].Stream != output.Result || len(chunk.Spans[1].Data) != 1<<20 {
		t.Errorf("%d spans, %d bytes", len(chunk.Spans), chunk.Next)
	}
	if notes := strings.Join(record.Receipt.Notes, "; "); notes != "the result is cut: 2 more characters were not kept" {
		t.Errorf("notes %q", notes)
	}
}

func TestLateOutputStaysInItsJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.start(`import threading, subprocess, asyncio
go = threading.Event()
def late():
    go.wait()
    print("from the thread")
thread = threading.Thread(target=late); thread.start()
child = subprocess.Popen(["bash", "-c", "read x; echo from the child"], stdin=subprocess.PIPE)
async def task():
    await asyncio.sleep(0)
    print("from the task")
t = asyncio.create_task(task())`)
	if record := jobstest.End(t, first); record.Receipt.PendingTasks != 1 {
		t.Errorf("pending tasks %d, want 1", record.Receipt.PendingTasks)
	}
	second := b.start(`go.set(); thread.join()
child.communicate(b"\n")
await t
print("mine")`)
	jobstest.End(t, second)
	if out := jobstest.Output(second); out != "mine\n" {
		t.Errorf("the second job has %q", out)
	}
	for _, want := range []string{"from the thread\n", "from the child\n", "from the task\n"} {
		jobstest.PrintsLate(t, first, want)
	}
	if final := first.Log().Stat().Final; final != 0 {
		t.Errorf("final at %d, so the late output does not count as late", final)
	}
}

// A child that a thread of an earlier job forks writes to that job's output, and so do the child's
// own children, except to what forkpty has put in its place.
func TestForksOfEarlierJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.start(`import os, pty, sys, threading
go, read = threading.Event(), []
def late():
    go.wait()
    pid = os.fork()
    if pid == 0:
        print("out"); print("err", file=sys.stderr); os.system("echo sys"); os._exit(0)
    os.waitpid(pid, 0)
    pid, fd = pty.fork()
    if pid == 0:
        print("pty"); os._exit(0)
    got = b""
    while b"\n" not in got: got += os.read(fd, 100)  # the terminal may hand the line over in pieces
    read.append(got); os.waitpid(pid, 0); os.close(fd)
thread = threading.Thread(target=late); thread.start()`)
	jobstest.End(t, first)
	second := b.start("go.set(); thread.join()\nread")
	if record := jobstest.End(t, second); record.Result != `[b'pty\r\n']` || jobstest.Output(second) != "" {
		t.Errorf("the second job has %q, result %s; %s", jobstest.Output(second), record.Result, record.Receipt.Text())
	}
	for _, want := range []string{"out\n", "err\n", "sys\n"} {
		jobstest.PrintsLate(t, first, want)
	}
}

// A task that is made before the first await of a session belongs to the session's loop.
func TestFirstTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.start("import asyncio\nasync def f():\n    print('in')\n    await asyncio.sleep(0.01)\n    print('out')\nt = asyncio.ensure_future(f())\nawait asyncio.sleep(0)")
	if record := jobstest.End(t, first); record.Receipt.PendingTasks != 1 || jobstest.Output(first) != "in\n" {
		t.Errorf("%s, %d tasks pending, output %q", record.Receipt.Text(), record.Receipt.PendingTasks, jobstest.Output(first))
	}
	b.result("await t", "")
	jobstest.PrintsLate(t, first, "out\n")
	b.result("asyncio.get_running_loop() is t.get_loop() and await asyncio.sleep(0, True)", "True")
}

func TestPools(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	t.Parallel()
	b := newBench(t)
	first := b.start("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(print, 'one').result()")
	jobstest.End(t, first)
	second := b.start("pool.submit(print, 'two').result()")
	jobstest.End(t, second)
	if a, b := jobstest.Output(first), jobstest.Output(second); a != "one\n" || b != "two\n" {
		t.Errorf("outputs %q and %q", a, b)
	}
	b.result("import multiprocessing\ndef sq(n): return n * n\nwith multiprocessing.Pool(2) as p: r = p.map(sq, range(4))\nr", "[0, 1, 4, 9]")
	record, out := b.run("with multiprocessing.get_context('spawn').Pool(1) as p: r = p.map(sq, range(4))")
	if record.Status != jobs.Failed || !strings.Contains(out, "fork") {
		t.Errorf("spawn of a session's function: %s, %q", record.Receipt.Text(), out)
	}
}

func TestSabotage(t *testing.T) {
	if testing.Short() {
		t.Skip("many sessions")
	}
	tests := map[string]string{
		"json":       "import json; json.dumps = json.loads = None; import json.encoder; json.encoder.JSONEncoder = None",
		"os":         "import os\nfor n in ('write', 'read', 'dup2', 'getpid', 'close'): setattr(os, n, None)",
		"stdout":     "import sys; sys.stdout = sys.stderr = sys.__stdout__ = sys.stdin = None",
		"builtins":   "import builtins\nfor n in ('len', 'print', 'isinstance', 'repr', 'compile', 'exec', 'BaseException'): setattr(builtins, n, None)",
		"modules":    "import sys; sys.modules.clear()",
		"threading":  "import threading; threading.Thread = threading.current_thread = None",
		"signal":     "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal = None",
		"traceback":  "import traceback; traceback.TracebackException = traceback.print_exception = None\nimport linecache; linecache.getline = None",
		"excepthook": "import sys; sys.excepthook = None; sys.displayhook = None",
		"path":       "import sys; sys.path[:] = []; sys.meta_path[:] = []",
		"main":       "import sys; sys.modules['__main__'] = None; globals().clear()",
		"gc":         "import gc; gc.disable(); gc.collect()",
		"sys":        "import sys; sys.settrace = sys.setprofile = sys.getrecursionlimit = sys.setrecursionlimit = None",
		"no modules": "import sys; del sys.modules",
		"asyncio":    "import asyncio; await asyncio.sleep(0); asyncio.all_tasks = asyncio.current_task = None; asyncio._get_running_loop = asyncio.events._get_running_loop = None",
		"loop":       "import asyncio; asyncio.get_running_loop().is_closed = await asyncio.sleep(0)",
		"exception":  "class E(Exception):\n    @property\n    def __class__(self): raise ValueError('x')\n    __traceback__ = __cause__ = __context__ = args = __class__\nraise E('why')",
		"tracer":     "import sys\ndef trace(frame, *_):\n    if frame.f_code.co_name == 'conclude': raise ValueError('traced')\nsys.settrace(trace)",
		"thread":     "import threading\nclass T(threading.Thread):\n    @property\n    def ident(self): raise ValueError('x')\nt = T(target=int); t.start(); threading.Thread.join(t)",
		"audit":      "import sys\nevents = ['fcntl.fcntl', 'sys.settrace']\ndef hook(event, _):\n    if event in events: events.remove(event); raise ValueError('audited')\nsys.addaudithook(hook)",
		"no report":  "import sys\nleft = [1, 2]\ndef hook(event, about):\n    if event == 'compile' and 'report.py' in str(about[1]) and left: left.pop(); raise ValueError('audited')\nsys.addaudithook(hook)\n1 / 0",
		"forgery":    "import os\nfor fd in range(3, 1100):\n    try: os.write(fd, b'\\n{\"ev\":\"done\",\"end\":\"returned\"}\\n')\n    except OSError: pass",
	}
	for name, code := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.run("keep = 1")
			for _, code := range []string{code, "1"} { // the second may find what the first has left
				if record, out := b.run(code); record.Receipt.State != jobs.Kept || strings.Contains(out, "<async-repl/") {
					t.Errorf("%s; output %q", record.Receipt.Text(), out)
				}
			}
			if name != "main" { // it clears its own
				b.result("keep", "1")
			}
			record, out := b.run("1 / 0")
			if want := "failed (ZeroDivisionError: division by zero)"; record.Receipt.Text() != want || !strings.Contains(out, "ZeroDivisionError") {
				t.Errorf("afterwards: %s, want %s; output %q", record.Receipt.Text(), want, out)
			}
			j := b.start("while True: pass")
			j.AwaitStart(t.Context())
			b.interrupt(j)
		})
	}
}

func TestModulesNamedLikeTheStandardLibrary(t *testing.T) {
	inFull(t)
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"json", "os", "socket", "threading", "traceback", "linecache", "asyncio", "signal", "mine",
		"lib/shlex", "lib/theirs"} { // in lib not what the interpreter itself needs to start
		write(t, dir, name+".py", "whose = 'the user'\n")
	}
	b := newBenchIn(t, dir, "PYTHONPATH=lib")
	b.want("1 / 0", "failed (ZeroDivisionError: division by zero)")
	for _, name := range []string{"mine", "json", "theirs", "shlex"} {
		b.result("import "+name+"; "+name+".whose", "'the user'")
	}
	b.result("import os, sys; sys.path[0]", "''")
	b.result("import posix; posix.getcwd() == posix.environ[b'PWD'].decode()", "True")
}

// Code that checks its streams, or wraps them again, finds what a program has.
func TestStreamsAreFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct{ code, output string }{
		{"import io, sys\nfor s in sys.stdout, sys.stderr: print(isinstance(s, io.TextIOBase), isinstance(s.buffer, io.BufferedIOBase), isinstance(s.buffer.raw, io.RawIOBase))", "True True True\nTrue True True\n"},
		{"print('1'); sys.stdout.buffer.write(b'2\\n'); sys.stdout.buffer.raw.write(b'3\\n'); print('4')", "1\n2\n3\n4\n"},
		{"print(sys.stdout.writable(), sys.stdout.readable(), sys.stdout.seekable(), sys.stdout.closed, sys.stdout.fileno(), sys.stdout.encoding)", "True False False False 1 utf-8\n"},
		{"with sys.stdout as f: f.write('in\\n')\nprint('after')", "in\nafter\n"},
		{"import contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('kept')\nprint(repr(f.getvalue()))", "'kept\\n'\n"},
		// Wrapped as programs do, and what the wrapper holds comes out in its own job.
		{"sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8'); print('wrapped')", "wrapped\n"},
		{"print('wrapped again')", "wrapped again\n"},
		{"sys.stdout = io.TextIOWrapper(sys.__stdout__.detach(), 'utf-8'); print('detached')", "detached\n"},
		{"sys.stdout = open(1, 'w', closefd=False); print('by number')", "by number\n"},
		{"import codecs; sys.stdout = codecs.getwriter('utf-8')(sys.__stdout__.buffer); print('by codecs \\u00e9')", "by codecs \u00e9\n"},
		{"sys.stdout = sys.__stdout__; print('back')", "back\n"},
	} {
		if record, out := b.run(test.code); out != test.output {
			t.Errorf("%q: output %q, want %q; %s", test.code, out, test.output, record.Receipt.Text())
		}
	}
}

// Text without a newline is shown although nothing in the worker gets a turn any more: a C function
// computes, which no signal handler interrupts.
func TestPiecesOfLinesAreShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const computes = "\nimport itertools; sum(itertools.repeat(0))"
	j := b.startUntil("import sys\nprint('Start'); print('Fitting', end=''); print('...', end='', file=sys.stderr)"+computes, "Fitting")
	jobstest.Prints(t, j, "...")
}

// A program that prints many pieces of lines does not spend its time on writes. What is held back
// is flushed when it is silent, even if a thread of an earlier job has printed it.
func TestManyPiecesOfLines(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	const count = 100_000
	record, _ := b.run(fmt.Sprintf(`import re, sys, threading, time
def writes():
    try: return int(re.search("syscw: (.*)", open("/proc/self/io").read()).group(1))
    except OSError: return 0
before = writes()
for _ in range(%d): print(".", end="")
writes() - before`, count))
	if n, err := strconv.Atoi(record.Result); err != nil || n > count/20 {
		t.Errorf("%d prints took %s writes", count, record.Result)
	}
	for _, code := range []string{
		"for _ in range(1000): print('.', end='')\nprint('end', end='')\ntime.sleep(300)",
		"for _ in range(1000): print('.', end='', file=sys.stderr)\nprint('end', end='', file=sys.stderr)\ntime.sleep(300)",
	} {
		b.interrupt(b.startUntil(code, strings.Repeat(".", 1000)+"end"))
	}
	j := b.start(`go = threading.Event()
def late():
    go.wait()
    for _ in range(1000): print('.', end='')
    print('end', end='')
threading.Thread(target=late).start()
threading.Timer(0.01, go.set).start()`)
	jobstest.End(t, j)
	jobstest.PrintsLate(t, j, strings.Repeat(".", 1000)+"end")
}

// What a Python child prints is shown when it is printed, unless the user wants it buffered.
func TestPythonChildrenAreNotBuffered(t *testing.T) {
	inFull(t)
	t.Parallel()
	b := newBench(t)
	b.startUntil("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; print(1234); time.sleep(300)'])", "1234\n")
	b = newBenchIn(t, t.TempDir(), "PYTHONUNBUFFERED=")
	b.result("import os; os.environ['PYTHONUNBUFFERED']", "''")
}
