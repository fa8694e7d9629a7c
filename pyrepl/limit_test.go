//go:build linux

package pyrepl_test

import (
	"slices"
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// limited limits the memory of the bench's session, which has not started.
func (b *bench) limited(mb int) *bench {
	b.t.Helper()
	if path, err := b.cfg.Python(b.t.Context()); err == nil && freeThreaded(b.t, path) {
		b.t.Skip("a free-threaded build reserves more memory than the limits of these tests")
	}
	b.cfg.Memory, b.cfg.MemorySetting = mb, "REPL_MEMORY_MB"
	b.reconfigured()
	return b
}

// Code that reaches the limit of its session's memory fails with that limit, and the session works
// as before: it reports, takes jobs, lists its variables, and can release what it holds. .ci/long
// reaches the limit many times.
func TestMemoryLimit(t *testing.T) {
	fills := map[string]string{
		"large":  "for _ in range(500): x.append(bytearray(1 << 20))",
		"small":  "for _ in range(2_000_000): x.append(bytearray(100))",
		"tiny":   "for _ in range(3_000_000): x.append(str(len(x)))",
		"linked": "while True: x = [x]", // takes the last byte each time: no list has to grow
	}
	for name, fill := range fills {
		for version, path := range interpretersFor(t, name) {
			t.Run(name+version, func(t *testing.T) {
				t.Parallel()
				b := newBenchOn(t, path, t.TempDir()).limited(64)
				b.want("x = []", "completed")
				for range jobstest.Rounds(t, 5) {
					if _, out := b.want(fill, "failed (out of memory: limit of 64 MB; variables kept)"); !strings.Contains(out, "MemoryError") {
						t.Errorf("output %q", out)
					}
					if _, out := b.want("print('out')", "completed"); out != "out\n" {
						t.Errorf("output %q", out)
					}
				}
				if known, err := b.s.Variables(t.Context(), ""); err != nil || len(known.Vars) == 0 || known.Vars[0].Name != "x" {
					t.Errorf("variables %+v, error %v", known, err)
				}
				b.want("del x", "completed")
				b.result("len(bytearray(16 << 20))", "16777216")
			})
		}
	}
}

// interpretersFor returns the interpreters for a case of TestMemoryLimit, with their place in its
// name: all of the machine for two cases, but only the one under test for the others, and in a short
// run.
func interpretersFor(t *testing.T, name string) map[string]string {
	switch {
	case testing.Short() && name != "large": // it fills the memory byte by byte
		return nil
	case testing.Short() || name != "large" && name != "linked":
		return map[string]string{"": python(t)}
	}
	all := make(map[string]string)
	for _, f := range holders() {
		all[" on "+f.path] = f.path
	}
	return all
}

// Every process that the session starts has the limit, and so has a worker that replaces another.
func TestMemoryLimitOfChildren(t *testing.T) {
	inFull(t)
	b := newBench(t).limited(100)
	const ask = "import subprocess; subprocess.check_output('ulimit -d', shell=True, text=True)"
	b.result(ask, `'102400\n'`)
	b.want("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "failed (killed by SIGKILL; variables lost)")
	b.result(ask, `'102400\n'`)
}

// Whatever says that memory is short is reported alike: numpy has an exception of its own, a fork
// fails with an error of the system, and scipy calls itself broken if a module of it does not fit.
func TestOutOfMemoryErrors(t *testing.T) {
	inFull(t)
	b := newBench(t).limited(100)
	for code, want := range map[string]string{
		"raise MemoryError": "failed (out of memory: limit of 100 MB; variables kept)",
		"class ArrayMemoryError(MemoryError): pass\nraise ArrayMemoryError('Unable to allocate 7 GiB')":                                         "failed (out of memory: limit of 100 MB: Unable to allocate 7 GiB; variables kept)",
		"raise OSError(12, 'Cannot allocate memory')":                                                                                           "failed (out of memory: limit of 100 MB: [Errno 12] Cannot allocate memory; variables kept)",
		"try: raise ImportError('x.so: failed to map segment from shared object')\nexcept ImportError as e: raise ImportError('broken') from e": "failed (out of memory: limit of 100 MB: broken; variables kept)",
		"raise OSError(2, 'No such file')":                                                                                                      "failed (FileNotFoundError: [Errno 2] No such file)",
	} {
		b.want(code, want)
	}
	record, _ := b.want("import os; os.abort()", "failed (killed by SIGABRT; variables lost)")
	want := "its memory has a limit of 100 MB, and code in C can crash or exit when it is reached"
	if !slices.Contains(record.Receipt.Notes, want) {
		t.Errorf("notes %q, want %q", record.Receipt.Notes, want)
	}
}

// An exception of another kind is shown although no memory is left.
func TestErrorWithoutMemory(t *testing.T) {
	inFull(t)
	b := newBench(t).limited(64)
	_, out := b.want("x = []\nfor size in (1 << 20, 1 << 12, 256):\n    try:\n        while True: x.append(bytearray(size))\n"+
		"    except MemoryError: pass\nraise ImportError('full')", "failed (ImportError: full)")
	if !strings.HasSuffix(out, "ImportError: full\n") {
		t.Errorf("output %q", out)
	}
}

// A limit in which Python can't start is an error that says so.
func TestMemoryLimitTooSmall(t *testing.T) {
	record, _ := newBench(t).limited(1).run("1")
	if record.Receipt.End != jobs.NotStarted || !strings.Contains(record.Receipt.Text(), "its limit of 1 MB can be too small: raise REPL_MEMORY_MB, or set REPL_PYTHON") {
		t.Errorf("%s", record.Receipt.Text())
	}
}
