package findings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/lines"
)

// found returns the findings of output of these pieces.
func found(pieces ...string) []Finding {
	var c Collector
	at := 0
	for _, text := range pieces {
		c.Write(output.TTY, []byte(text), int64(at))
		at += len(text)
	}
	return c.From(0)
}

func TestErrorsOfPrograms(t *testing.T) {
	for _, tt := range []struct{ kind, line string }{
		{"compiler", "src/main.c:12:3: error: 'x' undeclared (first use in this function)"},
		{"compiler", "main.c:1:10: fatal error: missing.h: No such file or directory"},
		{"compiler", "error[E0308]: mismatched types"},
		{"compiler", "error: could not compile `demo` (bin \"demo\") due to 1 previous error"},
		{"compiler", "src/app.ts(12,3): error TS2322: Type 'string' is not assignable to type 'number'."},
		{"compiler", "src/app.ts:12:3 - error TS2322: Type 'string' is not assignable to type 'number'."},
		{"compiler", "Main.java:3: error: cannot find symbol"},
		{"compiler", "collect2: error: ld returned 1 exit status"},
		{"go", "./main.go:12:3: undefined: y"},
		{"linker", "/usr/bin/ld: main.o: undefined reference to `f'"},
		{"traceback", "Traceback (most recent call last):"},
		{"exception", "ValueError: invalid literal for int() with base 10: 'x'"},
		{"exception", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"},
		{"exception", "E       AssertionError: assert 1 == 2"},
		{"exception", "Exception in thread \"main\" java.lang.NullPointerException"},
		{"exception", "Caused by: java.io.IOException: disk full"},
		{"exception", "Uncaught TypeError: x is not a function"},
		{"pytest", "FAILED tests/test_a.py::test_x - assert 1 == 2"},
		{"pytest", "ERROR tests/test_a.py - ImportError"},
		{"pytest", "tests/test_a.py::test_x FAILED                 [ 42%]"},
		{"test", "--- FAIL: TestX (0.00s)"},
		{"subtest", "    --- FAIL: TestX/a (0.00s)"},
		{"test", "FAIL\texample.com/pkg\t0.012s"},
		{"test", "test tests::adds ... FAILED"},
		{"panic", "panic: runtime error: index out of range [3] with length 3"},
		{"panic", "thread 'main' panicked at src/main.rs:2:5:"},
		{"panic", "fatal error: all goroutines are asleep - deadlock!"},
		{"npm", "npm ERR! code ERESOLVE"},
		{"npm", "npm error code E404"},
		{"make", "make: *** [Makefile:12: all] Error 1"},
		{"make", "FAILED: CMakeFiles/x.dir/x.c.o"},
		{"crash", "Segmentation fault (core dumped)"},
		{"crash", "==12==ERROR: AddressSanitizer: heap-use-after-free on address 0x60200000eff4"},
		{"fatal", "fatal: not a git repository (or any of the parent directories): .git"},
		{"fatal", "2026-11-21 10:12:13 FATAL cannot bind"},
		{"log", "2026-11-21 10:12:13,123 ERROR worker: could not connect"},
		{"log", "[ERROR] Failed to execute goal"},
		{"error", "cc1: Error: unknown option"},
		{"error", "Error: Cannot find module 'x'"},
		{"shell", "sh: 1: foo: command not found"},
		{"shell", "cat: /x: No such file or directory"},
		{"shell", "bash: line 3: ./x: Permission denied"},
	} {
		got := found("begin\n", tt.line+"\n", "end\n")
		if len(got) != 1 || got[0].Text != strings.ReplaceAll(tt.line, "\t", `\t`) || got[0].At != 6 || got[0].Section != lines.Stdout {
			t.Errorf("%q: %+v", tt.line, got)
			continue
		}
		if got[0].kind != tt.kind {
			t.Errorf("%q is of kind %s, want %s", tt.line, got[0].kind, tt.kind)
		}
	}
}

func TestLinesThatAreNoErrors(t *testing.T) {
	for _, line := range strings.Split(`
0 errors, 3 warnings
no errors found
Found 0 errors.
errors: 0
error: 0
ERRORS=0
ERROR: 0
gcc -Wall -Werror -c error.c -o error.o
cc -Wno-error=format src/errors/error.c:12
error.c
src/error.c:12:3: warning: unused variable 'error'
src/error.c:12:3: note: in expansion of macro
Compiling thiserror v1.0.61
   Compiling error-chain v0.12.4
checking for error_at_line... yes
test error_is_returned ... ok
tests/test_error.py::test_failed PASSED                 [ 42%]
PASSED tests/test_error.py::test_error
--- PASS: TestError (0.00s)
ok  	example.com/errors	0.12s
=== RUN   TestFailed
panic_handler installed
recovered from a panic: retrying
npm WARN deprecated error@1.0.0
npm notice
retry on error
if error: raise ValueError
    raise ValueError("error: " + text)
except (ValueError, TypeError):
log.Error("connect")
import Traceback
the error handling is done in error.py
FAILED=0
FAILED: 0
0 failed, 12 passed
Error rate: 0.1 %
ErrorHandler registered
copying src/FAIL.txt
-DFATAL_WARNINGS=ON
[ 42%] Building C object error.c.o
2026-11-21 10:12:13 INFO no ERRORS
main.go:12
http://example.com/error: 404
errors: 0, error=nil
main.go:12: error=nil
errors.go
cc -Werror -c main.c
=== RUN   TestParseError
    --- PASS: TestX/returns_error:_x (0.00s)
test_error.py::TestError::test_failed PASSED
ok 3 - error: is handled
  ✓ throws Error: on bad input (3 ms)
✔ fails with TypeError: x
ErrorTest > throwsError() PASSED
    0 Error(s)
Failed: 0, Passed: 12
failed=0
Tests run: 3, Failures: 0, Errors: 0
{"level":"info","error":null}
level=info msg="no error" errors=0
npm warn deprecated error-stack@1.0.0: no errors
  3:5  warning  'error' is never used  no-unused-vars
[info] error
web-1  | GET /error 200
2026-05-01T12:00:00Z ok  	example.com/errors	0.012s
#9 1.0 gcc -Werror -c error.c
`, "\n") {
		if got := found(line + "\n"); len(got) > 0 {
			t.Errorf("%q is taken for an error: %+v", line, got)
		}
	}
}

// The first of each kind is found, with its place, also if it is coloured, on another stream, or
// drawn over a bar.
func TestFirstOfEachKind(t *testing.T) {
	var c Collector
	at := int64(0)
	write := func(s output.Stream, text string) (from int64) {
		c.Write(s, []byte(text), at)
		at += int64(len(text))
		return at - int64(len(text))
	}
	write(output.Stdout, "a.c:1:1: error: first\nfine\n\x1b[1ma.c:2:1: \x1b[31merror: \x1b[0msecond\n")
	first := write(output.Stderr, "\x1b[31mpanic: \x1b[0mat the\tdisco\n")
	bar := write(output.Stdout, "10 %\r20 %\rnpm error code 1\r\n")
	write(output.Stdout, "ValueError")
	write(output.Stderr, "fine\n")
	want := []Finding{
		{lines.Stdout, 0, "a.c:1:1: error: first", "compiler"},
		{lines.Stderr, first, `panic: at the\tdisco`, "panic"},
		{lines.Stdout, bar + 10, "npm error code 1", "npm"},
		{lines.Stdout, bar + 28, "ValueError", "exception"}, // a line that has not ended
	}
	if got := c.From(0); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	write(output.Stdout, ": bad\n")
	want[3].Text = "ValueError: bad"
	if got := c.From(1); !slices.Equal(got, want[1:]) {
		t.Errorf("from 1: got %+v\nwant %+v", got, want[1:])
	}
}

// The line that was logged before a test of Go failed can be of any of its subtests. Of a test without
// them it is why the test failed.
func TestFailedSubtestIsNamed(t *testing.T) {
	const alone = "=== RUN   TestB\n    b_test.go:3: wrong\n--- FAIL: TestB (0.00s)\n"
	const several = "=== RUN   TestA\n=== RUN   TestA/1\n    a_test.go:3: wrong\n=== RUN   TestA/2\n    a_test.go:3: fine\n" +
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/1 (0.00s)\n    --- PASS: TestA/2 (0.00s)\n"
	const assertions = "=== RUN   TestC\n=== RUN   TestC/1\n    c_test.go:3: checking 1\n    c_test.go:4: got 1, want 2\n=== RUN   TestC/2\n    c_test.go:3: checking 2\n" +
		"--- FAIL: TestC (0.00s)\n    --- FAIL: TestC/1 (0.00s)\n    --- PASS: TestC/2 (0.00s)\n"
	for text, want := range map[string][]string{
		assertions:      {"    c_test.go:4: got 1, want 2", "--- FAIL: TestC (0.00s)", "    --- FAIL: TestC/1 (0.00s)"},
		several:         {"--- FAIL: TestA (0.00s)", "    --- FAIL: TestA/1 (0.00s)"},
		alone:           {"    b_test.go:3: wrong", "--- FAIL: TestB (0.00s)"},
		alone + several: {"    b_test.go:3: wrong", "--- FAIL: TestB (0.00s)", "--- FAIL: TestA (0.00s)", "    --- FAIL: TestA/1 (0.00s)"},
		several + alone: {"--- FAIL: TestA (0.00s)", "    --- FAIL: TestA/1 (0.00s)", "    b_test.go:3: wrong", "--- FAIL: TestB (0.00s)"},
	} {
		var got []string
		for _, f := range found(text) {
			got = append(got, f.Text)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("of\n%s%s", text, d)
		}
	}
}

// After an input the first errors are looked for again.
func TestRestart(t *testing.T) {
	var c Collector
	text := "panic: 1\npanic: 2\n"
	c.Write(output.TTY, []byte(text), 0)
	for i := range 2 * mostBefore {
		c.Restart()
		c.Write(output.TTY, []byte(text), int64(len(text)*(i+1)))
	}
	end := int64(2 * mostBefore * len(text))
	for from, want := range map[int64]int64{0: 0, int64(len(text)): int64(len(text)), end: end} {
		if got := c.From(from); len(got) != 1 || got[0].At != want || got[0].Text != "panic: 1" {
			t.Errorf("from %d: %+v", from, got)
		}
	}
	if got := c.From(end + 1); len(got) > 0 || len(c.before) != mostBefore {
		t.Errorf("%+v, and %d kept", got, len(c.before))
	}
}

// It makes no difference how the output is cut into pieces.
func TestPieces(t *testing.T) {
	for _, f := range floods(t) {
		text, _, _ := f.text(30, "\r\n")
		want := found(text)
		if len(want) == 0 {
			t.Errorf("%s: none", f.name)
		}
		for _, size := range []int{1, 2, 3, 7, 100, 4095} {
			var pieces []string
			for piece := range slices.Chunk([]byte(text), size) {
				pieces = append(pieces, string(piece))
			}
			if got := found(pieces...); !slices.Equal(got, want) {
				t.Errorf("%s in pieces of %d: %+v\nwant %+v", f.name, size, got, want)
			}
		}
	}
}

// All of a long output is read, and its memory is bounded: lines without an end are not kept.
func TestLongOutput(t *testing.T) {
	racetest.Skip(t)
	var c Collector
	at := int64(0)
	write := func(text string, times int) {
		for range times {
			c.Write(output.TTY, []byte(text), at)
			at += int64(len(text))
		}
	}
	write(strings.Repeat("0 errors\n", 7000), 200)
	write("done, error: none\n", 2*freeLines)
	if c.compared > freeLines+at/rareLines {
		t.Errorf("of %d bytes %d lines are compared", at, c.compared)
	}
	write(strings.Repeat("fine\n", 7000), 200)
	first := at
	write("FAIL\tx\n", 1)
	write(strings.Repeat("no end ", 9000), 200)
	if n := cap(c.open[lines.Stdout].text); n > 4*lineBytes {
		t.Errorf("it keeps %d bytes", n)
	}
	write("\nFAIL\ty\npanic: 2\n", 1)
	got := c.From(0)
	if len(got) != 3 || got[0].At != first || got[2].Text != "panic: 2" {
		t.Errorf("found %+v", got)
	}
	for i := range 30 {
		write(fmt.Sprintf("npm error %d\nTraceback (most recent call last):\nValueError: bad\npanic: x\nerror[E0425]: no x\nFAILED test_x.py::t - E\n"+
			"make: *** [all] Error 2\nerror: failed to push\nERROR in ./src/x.ts\n./x.go:3:4: undefined: foo\nfatal: x\n##[error]x\n", i), 1)
	}
	if got := c.From(0); len(got) != most {
		t.Errorf("%d findings", len(got))
	}
}

// The output of a job passes a collector. The floor is a copy of it, as the log makes one.
func BenchmarkWrite(b *testing.B) {
	for name, line := range map[string]string{
		"seq":      "1234567\n",
		"plain":    "2026-11-21 10:12:13 INFO worker 3 got /a/1/2 in 12 ms and is at rest\n",
		"words":    "2026-11-21 10:12:13 INFO worker 3 got 0 errors and no Exception: fine\n",
		"coloured": "\x1b[32m2026-11-21 10:12:13\x1b[0m \x1b[1mINFO\x1b[0m worker 3 got /a/1/2 in 12 ms\n",
	} {
		for _, size := range []int{4 << 10, 64 << 10} {
			chunk := []byte(strings.Repeat(line, 1+size/len(line))[:size])
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				var c Collector
				into := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				var ours, floor time.Duration
				for b.Loop() {
					begin := time.Now()
					c.Write(output.TTY, chunk, 0)
					middle := time.Now()
					copy(into, chunk)
					ours += middle.Sub(begin)
					floor += time.Since(middle)
				}
				b.ReportMetric(float64(ours)/float64(floor), "x-copy")
			})
		}
	}
}
