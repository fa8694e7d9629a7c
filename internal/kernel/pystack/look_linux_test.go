package pystack_test

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/pystack"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs/jobstest"
)

// The code that looks are tested on. Each prints a line when it is about to get where a look must
// find it: want is a pattern of the frames, as text shows them. Code that moves need not be seen
// each time.
var codes = []struct {
	name, code, want string
	moves            bool
}{
	{
		name: "sleep",
		code: `import time
def nap():
    time.sleep(3600)
print("here", flush=True)
call(nap)
`,
		want: `<module>:5 nap:3`,
	},
	{
		name: "C code",
		code: `import hashlib
def derive():
    return hashlib.pbkdf2_hmac("sha256", b"x", b"y", (1 << 31) - 1)
print("here", flush=True)
derive()
`,
		want: `<module>:5 derive:3`,
	},
	{
		name: "a method called from C",
		code: `import time
class Key:
    def __init__(self, n):
        self.n = n
    def __lt__(self, other):
        time.sleep(3600)
print("here", flush=True)
sorted([Key(2),
        Key(1)])
`,
		want: `<module>:8 __lt__:6`,
	},
	{
		name: "loop", moves: true,
		code: `def work(n):
    return sum(range(n))
def left():
    work(100)
    return 1
def right():
    return work(300)
def both():
    while True:
        left()
        right()
print("here", flush=True)
both()
`,
		want: `<module>:1[23]( both:(9|10( left:(3|4( work:[12])?|5))?|11( right:(6|7( work:[12])?))?))?`,
	},
	{
		name: "generators", moves: true,
		code: `def numbers(n):
    for i in range(n):
        yield i * i
def through(n):
    yield from numbers(n)
def total():
    while True:
        sum(through(50))
print("here", flush=True)
total()
`,
		want: `<module>:(9|10)( total:(7|8( through:(4|5( numbers:[123])?))?))?`,
	},
	{
		name: "exceptions", moves: true,
		code: `def fail(n):
    raise ValueError("x" * n)
def tries():
    while True:
        try:
            fail(500)
        except ValueError as error:
            text = str(error) * 50
print("here", flush=True)
tries()
`,
		want: `<module>:(9|10)( tries:([45]|6( fail:[12])?|[78]))?`,
	},
	{
		name: "recursion",
		code: `import time
def down(n):
    if n:
        return down(n - 1)
    time.sleep(3600)
print("here", flush=True)
down(99)
`,
		want: `<module>:7( down:4){99} down:5`,
	},
	{
		name: "threads",
		code: `import threading, time
def spin():
    while True:
        sum(range(1000))
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
def wait():
    time.sleep(3600)
print("here", flush=True)
wait()
`,
		want: `<module>:10 wait:8`,
	},
	{
		name: "await",
		code: `import asyncio
async def inner():
    await asyncio.sleep(3600)
async def outer():
    await inner()
print("here", flush=True)
run(None, outer())
`,
		want: `<module>:7 outer:5 inner:3 sleep:\d+ \(awaits\)`,
	},
	{
		name: "await of others",
		code: `import asyncio
async def other():
    print("here", flush=True)
    await asyncio.sleep(3600)
async def main():
    await asyncio.gather(other(), other())
run(None, main())
`,
		want: `<module>:7 main:6 \(awaits\)`,
	},
	{
		name: "another task",
		code: `import asyncio, time
async def other():
    time.sleep(3600)
async def main():
    task = asyncio.ensure_future(other())
    print("here", flush=True)
    await task
run(None, main())
`,
		want: `<module>:8 other:3`,
	},
	{
		name: "long lines and blank ones",
		code: "import time\ndef f(a, *b):\n" + strings.Repeat("\n", 300) + "    g(\n        1,\n" + strings.Repeat("\n", 70000) + "        time.sleep(3600))\ndef g(*a): pass\nprint(1, flush=True)\nf(" + strings.Repeat("1, ", 500) + "1)\n",
		want: `<module>:70308 f:70305`,
	},
	{
		name: "names of any script",
		code: `import time
def latté(): time.sleep(3600)
def Ωmega(): latté()
exec(compile("def \U0001D54Fyz(): Ωmega()", "\U0001F600.py", "exec"))
print("here", flush=True)
𝕏yz()
`,
		want: `<module>:6 Xyz:1 Ωmega:3 latté:2`,
	},
}

// A deep stack shows its innermost frames and counts the others.
func TestDeepStack(t *testing.T) {
	const code = `import sys, threading, time
sys.setrecursionlimit(20000)
def down(n):
    if n:
        return down(n - 1)
    time.sleep(3600)
print("here", flush=True)
down(%d)
`
	for _, python := range interpreters(t) {
		for depth, want := range map[int]struct {
			outer int
			more  bool
		}{1000: {outer: 1 + 1001 - pystack.Frames}, 6000: {outer: -1, more: true}} {
			r := python.start(t, fmt.Sprintf(code, depth))
			r.reaches(t, regexp.MustCompile("^( ?down:5){255} down:6$"))
			s, err := r.Look()
			if err != nil || s.More != want.more || !want.more && s.Outer != want.outer || len(s.Frames) != pystack.Frames {
				t.Errorf("%s, depth %d: %d frames, %d outer ones, more: %v, %v; want %v", python.version, depth, len(s.Frames), s.Outer, s.More, err, want)
			}
			r.end()
		}
	}
}

// The mark of a stack stays as long as nothing moves, and changes when something does.
func TestMark(t *testing.T) {
	python := interpreters(t)[0]
	still := python.start(t, "import time\nprint(1, flush=True)\ntime.sleep(3600)\n")
	still.reaches(t, regexp.MustCompile("^<module>:3$"))
	a, _ := still.Look()
	b, err := still.Look()
	if a.Mark != b.Mark || err != nil {
		t.Errorf("the mark of a sleeping thread changed: %v", err)
	}
	moving := python.start(t, "print(1, flush=True)\nn = 0\nwhile True:\n    n = sum(range(99)) * 3; n += len(str(n))\n")
	marks := make(map[uint64]bool)
	for deadline := time.Now().Add(jobstest.Patience); len(marks) < 3; {
		if s, err := moving.Look(); err == nil {
			marks[s.Mark] = true
		}
		if time.Now().After(deadline) {
			t.Fatalf("the marks of a busy thread are %v", marks)
		}
	}
}

// A process that is no interpreter, or has ended, is an error.
func TestNoLook(t *testing.T) {
	sleep := exec.Command("sleep", "3600")
	must.Do(t, sleep.Start())
	defer func() { sleep.Process.Kill(); sleep.Wait() }()
	none := new(pystack.UnavailableError)
	if _, err := pystack.NewTarget(sleep.Process.Pid, "3.12.1", program).Look(); !errors.As(err, &none) {
		t.Errorf("a look at sleep: %v", err)
	}
	python := interpreters(t)[0]
	r := python.start(t, "print(1, flush=True)\nimport time; time.sleep(3600)\n")
	for version, want := range map[string]string{
		"3.99.0": "the frames of Python 3.99 are not known", "4.0": "the frames of Python 4.0 are not known", "": "the frames of Python  are not known",
	} {
		if _, err := pystack.NewTarget(r.cmd.Process.Pid, version, program).Look(); err == nil || err.Error() != want || !errors.As(err, &none) {
			t.Errorf("version %q: %v; want %s", version, err, want)
		}
	}
	r.reaches(t, regexp.MustCompile("^<module>:2$"))
	r.end()
	if _, err := r.Look(); !errors.Is(err, procfs.ErrGone) {
		t.Errorf("a look at an ended process: %v", err)
	}
	if err := pystack.Available(); err != nil {
		t.Error(err)
	}
}

// text returns a stack on one line.
func text(s pystack.Stack) string {
	var b strings.Builder
	for _, f := range s.Frames {
		fmt.Fprintf(&b, " %s:%d", f.Function, f.Line)
	}
	if s.Awaits {
		b.WriteString(" (awaits)")
	}
	return strings.TrimPrefix(b.String(), " ")
}

// reaches looks until the stack is as a pattern says.
func (r *run) reaches(t testing.TB, want *regexp.Regexp) {
	t.Helper()
	for deadline := time.Now().Add(jobstest.Patience); ; {
		s, err := r.Look()
		if err == nil && want.MatchString(text(s)) {
			return
		}
		if err != nil && !errors.Is(err, pystack.ErrMoving) || time.Now().After(deadline) {
			t.Fatalf("the stack is %q, %v; want %q", text(s), err, want)
		}
	}
}

// About 500 looks at each interpreter show what is there and nothing else, and do no harm.
// STORM_ROUNDS is the number of looks at each piece of code; .ci/long makes 20,000.
func TestLooksAreTrue(t *testing.T) {
	looks := jobstest.Rounds(t, 40)
	if testing.Short() { // more take seconds
		looks = 20
	}
	for _, python := range interpreters(t) {
		t.Run(python.version, func(t *testing.T) {
			t.Parallel()
			for _, c := range codes {
				r := python.start(t, c.code)
				want := regexp.MustCompile("^" + c.want + "$")
				r.reaches(t, want)
				seen := 0
				for range looks {
					s, err := r.Look()
					if c.moves && errors.Is(err, pystack.ErrMoving) {
						continue
					}
					if err != nil || !want.MatchString(text(s)) || s.Outer != 0 || s.More {
						t.Errorf("%s: the stack is %q, %v; want %q", c.name, text(s), err, want)
						break
					}
					seen++
				}
				if err := r.cmd.Process.Signal(syscall.Signal(0)); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				r.end()
				t.Logf("%s: %d of %d looks", c.name, seen, looks)
			}
		})
	}
}
