package pyrepl_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"asyncrepl/jobs/jobstest"
)

// deep fails 100,000 frames down.
const deep = `
import sys
sys.setrecursionlimit(200_000)
def f(n):
    return 1 / 0 if n == 0 else f(n - 1)
f(100_000)`

// deepPython returns an interpreter whose recursion needs no C stack, 3.11 or newer, and whose own
// tracebacks are quick, older than 3.13.
func deepPython(t testing.TB) string {
	t.Helper()
	const fits = "import sys; assert sys.implementation.name == 'cpython' and (3, 11) <= sys.version_info < (3, 13)"
	for _, path := range append([]string{python(t)}, interpreters()...) {
		if exec.Command(path, "-c", fits).Run() == nil {
			return path
		}
	}
	t.Skip("no CPython 3.11 or 3.12, whose own tracebacks are quick")
	return ""
}

// deepTimes returns how much CPU time a session and a plain interpreter take to report a deep
// exception. A plain interpreter has to start first.
func deepTimes(t testing.TB, b *bench, path string) (ours, plain time.Duration) {
	t.Helper()
	used := func() time.Duration {
		j := b.start("import time; time.process_time_ns()")
		ns, err := strconv.ParseInt(jobstest.End(t, j).Result, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(ns)
	}
	before := used()
	jobstest.End(t, b.start(deep))
	ours = used() - before
	cmd := exec.Command(path, "-c", deep)
	cmd.Run() // it fails
	return ours, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// The report of an exception takes time in proportion to the depth of its traceback, as in a plain
// interpreter: the test would take a minute otherwise. The benchmark measures it.
func TestDeepTraceback(t *testing.T) {
	if testing.Short() {
		t.Skip("fails 100,000 frames down")
	}
	path := deepPython(t)
	b := newBenchOn(t, path, t.TempDir())
	_, out := b.want(deep, "failed (ZeroDivisionError: division by zero)")
	for _, want := range []string{
		"line 6, in <module>\n    f(100_000)\n", "  [98997 frames are left out]\n", "[Previous line repeated 997 more times]\n",
		"ZeroDivisionError: division by zero\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the traceback is %q, without %q", out, want)
		}
	}
}

// BenchmarkDeepTraceback is the report of an exception 100,000 frames down, against a plain
// interpreter. Aim: 2.
func BenchmarkDeepTraceback(b *testing.B) {
	path := deepPython(b)
	s := newBenchOn(b, path, b.TempDir())
	deepTimes(b, s, path)
	var ours, plain time.Duration
	for b.Loop() {
		o, p := deepTimes(b, s, path)
		ours, plain = ours+o, plain+p
	}
	b.ReportMetric(float64(ours)/float64(plain), "x-plain")
}
