package pyrepl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// wantFiles compares the contents of files in dir.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, text)
		}
	}
}

// ended restarts the session and waits for its end, which no process survives.
func (b *bench) ended() pyrepl.End {
	b.t.Helper()
	wait, err := b.s.Restart(jobs.Agent, "restart_python_worker")
	if err != nil {
		b.t.Fatal(err)
	}
	end, err := wait(b.t.Context())
	if err != nil || len(end.Survivors) > 0 {
		b.t.Fatalf("restart: %+v, %v", end, err)
	}
	return end
}

// An idle worker is asked to exit at a restart. Open files are flushed, wherever they are kept,
// atexit handlers run in their order, and what deletes itself at an exit is gone.
func TestRestartLetsPythonExit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBenchIn(t, dir)
	_, out := b.want(`import atexit, csv, gzip, logging, logging.handlers, os, tempfile, threading, weakref
rows = open("rows.csv", "w"); _ = csv.writer(rows).writerow(["a", 1])
class Held: pass
Held.ring = [Held, open("held.bin", "wb")]; _ = Held.ring[1].write(b"held")
def closure(f): return lambda: f
hidden = closure(open("hidden.txt", "w")); _ = hidden().write("hidden")
packed = gzip.open("packed.gz", "wt"); _ = packed.write("packed")
directory, file = tempfile.TemporaryDirectory(dir="."), tempfile.NamedTemporaryFile(dir=".")
late = open("late.txt", "w")
class Finalized:
    def __del__(self): os.rename("hidden.txt", "renamed.txt")
finalized = Finalized()
def first(): late.write("second handler\n"); print("bye")
def second(): late.write("first handler\n"); raise ValueError("in a handler")
for each in first, second: atexit.register(each)
log = logging.getLogger("x"); log.addHandler(logging.handlers.MemoryHandler(99, 99, logging.FileHandler("log.txt"))); log.warning("logged")
os.listdir()`, "completed")
	if out != "" {
		t.Errorf("output %q", out)
	}
	if end := b.ended(); !end.Had || end.Note != "" {
		t.Errorf("restart: %+v", end)
	}
	wantFiles(t, dir, map[string]string{
		"rows.csv": "a,1\r\n", "held.bin": "held", "renamed.txt": "hidden", "late.txt": "first handler\nsecond handler\n", "log.txt": "logged\n"})
	b.result("import gzip, os; gzip.open('packed.gz', 'rt').read(), [f for f in os.listdir() if f.startswith('tmp')]", "('packed', [])")
}

// While a worker exits it gets no signal and keeps its terminal, and its children are ended.
// Threads do not delay the exit.
func TestExitingPythonIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBenchIn(t, dir)
	b.want(`import atexit, os, signal, subprocess, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
heard = []
for number in signal.SIGHUP, signal.SIGTERM, signal.SIGINT: signal.signal(number, lambda n, _: heard.append(n))
child = subprocess.Popen(["sleep", "300"])
@atexit.register
def bye():
    code = child.wait()
    with open("bye.txt", "w") as file: print(code, heard, os.isatty(0), os.tcgetpgrp(0) == os.getpid(), file=file)`, "completed")
	if end := b.ended(); end.Note != "" {
		t.Errorf("restart: %+v", end)
	}
	wantFiles(t, dir, map[string]string{"bye.txt": "-15 [] True True\n"})
}

// An exit that takes longer than a second, or fails, is noted. Open files have been flushed before.
func TestRestartCutsOffAnExit(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the limit of an exit")
	}
	for name, test := range map[string]struct{ handler, note string }{
		"slow":  {"time.sleep(300)", "Python did not exit within 1s: "},
		"fails": {"os.abort()", "Python was killed by SIGABRT while it exited: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := newBenchIn(t, dir)
			b.run("import atexit, os, time\nrows = open('rows.txt', 'w'); _ = rows.write('rows')\natexit.register(lambda: " + test.handler + ")")
			if end := b.ended(); !strings.HasPrefix(end.Note, test.note) {
				t.Errorf("restart: %+v", end)
			}
			wantFiles(t, dir, map[string]string{"rows.txt": "rows"})
		})
	}
}

// Python ends a pool of processes in its own way: a process that is killed before can hold a lock
// that the exit waits for.
func TestPythonEndsItsPool(t *testing.T) {
	inFull(t)
	t.Parallel()
	dir := t.TempDir()
	b := newBenchIn(t, dir)
	b.want(`import atexit
atexit.register(lambda: open("bye.txt", "w").write("bye")) and None
from multiprocessing import Pool
pool = Pool(2)
_ = pool.map(abs, [1])`, "completed")
	if end := b.ended(); end.Note != "" {
		t.Errorf("restart: %+v", end)
	}
	wantFiles(t, dir, map[string]string{"bye.txt": "bye"})
}
