package findings

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/lines"
)

// found returns the findings of a log of these pieces.
func found(t testing.TB, pieces ...string) Findings {
	t.Helper()
	log := newLog(t)
	for _, text := range pieces {
		log.Write(output.TTY, []byte(text))
	}
	var s Search
	return s.In(log, 0, log.Stat().End)
}

func newLog(t testing.TB) output.Log {
	t.Helper()
	dir := t.TempDir()
	log := output.NewStore(output.Config{Cap: 64 << 20, Dir: func() (string, error) { return dir, nil }}).NewLog("x")
	t.Cleanup(log.Discard)
	return log
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
		{"test", "    --- FAIL: TestX/a (0.00s)"},
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
		got := found(t, "begin\n", tt.line+"\n", "end\n").List
		if len(got) != 1 || got[0].Text != strings.ReplaceAll(tt.line, "\t", `\t`) || got[0].At != 6 || got[0].Section != lines.Stdout {
			t.Errorf("%q: %+v", tt.line, got)
			continue
		}
		for _, k := range kinds() {
			if k.matches([]byte(tt.line)) {
				if k.name != tt.kind {
					t.Errorf("%q is of kind %s, want %s", tt.line, k.name, tt.kind)
				}
				break
			}
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
		if got := found(t, line+"\n").List; len(got) > 0 {
			t.Errorf("%q is taken for an error: %+v", line, got)
		}
	}
}

// The first of each kind is found, with its place, also if it is coloured, or on another stream.
func TestFirstOfEachKind(t *testing.T) {
	log := newLog(t)
	log.Write(output.Stdout, []byte("a.c:1:1: error: first\nfine\n\x1b[1ma.c:2:1: \x1b[31merror: \x1b[0msecond\n"))
	log.Write(output.Stderr, []byte("\x1b[31mpanic: \x1b[0mat the\tdisco\n"))
	var s Search
	got := s.In(log, 0, log.Stat().End)
	want := []Finding{{lines.Stdout, 0, "a.c:1:1: error: first"}, {lines.Stderr, log.Stat().End - 30, `panic: at the\tdisco`}}
	if len(got.List) != 2 || got.List[0] != want[0] || got.List[1].Text != want[1].Text || got.List[1].Section != lines.Stderr {
		t.Errorf("got %+v, want %+v", got.List, want)
	}
	if again := s.In(log, 10, 20); len(again.List) != 2 {
		t.Errorf("again: %+v", again)
	}
}

// Only the ends of a long part are searched, up to a bound that depends on bytes and lines, and the
// rest is named.
func TestSearchIsBounded(t *testing.T) {
	racetest.Skip(t)
	plain := strings.Repeat("fine\n", endBytes/5)
	third := plain[:len(plain)/3/5*5]
	bad := func(n int) string { return fmt.Sprintf("FAILED tests/test_%d.py::test_x\npanic: %d\n", n, n) }
	got := found(t, third, "npm ERR! code 1\n", plain, plain, "FAIL\tx\n", plain, plain, "panic: 2\n", third)
	if len(got.List) != 2 || got.List[0].Text != "npm ERR! code 1" || got.List[1].Text != "panic: 2" {
		t.Errorf("found %+v", got.List)
	}
	end := int64(2*len(third) + 4*len(plain) + len("npm ERR! code 1\nFAIL\tx\npanic: 2\n"))
	if len(got.Unsearched) != 1 || got.Unsearched[0] != (output.Range{From: endBytes, To: end - endBytes}) {
		t.Errorf("not searched: %v of %d", got.Unsearched, end)
	}
	got = found(t, plain, bad(1), third)
	if len(got.List) != 2 || len(got.Unsearched) != 0 {
		t.Errorf("all of it is searched: %+v", got)
	}
	var kinds strings.Builder // more than are looked for
	for _, line := range []string{"npm ERR! code 1", "Traceback (most recent call last):", "ValueError: bad", "panic: x", "error[E0425]: no x", "FAILED test_x.py::t - E",
		"make: *** [all] Error 2", "error: failed to push", "ERROR in ./src/x.ts", "./x.go:3:4: undefined: foo"} {
		kinds.WriteString(line + "\n")
	}
	got = found(t, third, kinds.String(), third)
	from := int64(len(third) + kinds.Len())
	if want := (output.Range{From: from, To: from + int64(len(third))}); len(got.List) != most || len(got.Unsearched) != 1 || got.Unsearched[0] != want {
		t.Errorf("after %d findings, not searched: %v, not %v", len(got.List), got.Unsearched, want)
	}
	near := strings.Repeat("0 errors\n", 2*endLines)
	got = found(t, near, plain[:600_000], bad(3))
	if len(got.List) != 0 || len(got.Unsearched) != 1 {
		t.Errorf("after %d lines with a literal: %+v", 2*endLines, got)
	}
}

// The middle of a reply about 8 MiB: a log without errors, one whose every line has a literal, and
// one with colours. The floor reads the lines of the same log, and looks at none.
func BenchmarkSearch(b *testing.B) {
	for name, line := range map[string]string{
		"plain":    "2026-11-21 10:12:13 INFO worker 3 got /a/1/2 in 12 ms and is at rest\n",
		"literals": "2026-11-21 10:12:13 INFO worker 3 got 0 errors and no Exception: fine\n",
		"coloured": "\x1b[32m2026-11-21 10:12:13\x1b[0m \x1b[1mINFO\x1b[0m worker 3 got /a/1/2 in 12 ms\n",
	} {
		log := newLog(b)
		log.Write(output.TTY, []byte(strings.Repeat(line, 2*endBytes/len(line))))
		end := log.Stat().End
		b.Run(name, func(b *testing.B) {
			b.SetBytes(2 * endBytes)
			b.ReportAllocs()
			for b.Loop() {
				if got := search(log, 0, end); len(got.List) > 0 {
					b.Fatal(got)
				}
			}
		})
		b.Run(name+"/floor", func(b *testing.B) {
			b.SetBytes(2 * endBytes)
			for b.Loop() {
				s := lines.NewScanner(log, 0, func(lines.Block) {})
				for s.Read(end) {
				}
				s.Finish()
			}
		})
	}
}
