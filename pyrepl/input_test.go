package pyrepl_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

func TestRoadsToStandardInput(t *testing.T) {
	tests := map[string]struct {
		code   string
		kind   string
		prompt string
		answer []jobs.Input
		result string
	}{
		"input":         {`input("Enter your name: ")`, "line", "Enter your name: ", answers("Jonathan"), "'Jonathan'"},
		"newline given": {`input("n? ")`, "line", "n? ", answers("42\n"), "'42'"},
		"empty line":    {`input("n? ")`, "line", "n? ", answers(""), "''"},
		"readline":      {"import sys\nprint('who? ', end='')\nsys.stdin.readline()", "line", "who? ", answers("me"), `'me\n'`},
		"buffer":        {"import sys\nsys.stdin.buffer.readline()", "line", "", answers("me"), `b'me\n'`},
		"iteration":     {"import sys\n[line for line in sys.stdin]", "line", "", []jobs.Input{{Text: "a", Line: true}, {Text: "b", Line: true}, {EOF: true, Line: true}}, `['a\n', 'b\n']`},
		"read to eof":   {"import sys\nsys.stdin.read()", "line", "", []jobs.Input{{Text: "a", Line: true, EOF: true}}, `'a\n'`},
		"getpass":       {"import getpass\ngetpass.getpass('PIN: ')", "secret", "PIN: ", answers("1234"), "'1234'"},
		"pdb":           {"def f():\n    v = 6\n    breakpoint()\n    return v * 7\nf()", "line", "(Pdb) ", answers("p v", "c"), "42"},
		"os.read":       {"import os\nprint('raw> ', end='', flush=True)\nos.read(0, 100)", "line", "raw> ", answers("x"), `b'x\n'`},
		"not flushed":   {"import os\nprint('raw> ', end='')\nos.read(0, 100)", "line", "raw> ", answers("x"), `b'x\n'`},
		"child, not flushed": {"import subprocess\nprint('key? ', end='')\nsubprocess.run(['bash', '-c', 'read -r k; echo got $k'], stdout=subprocess.PIPE, text=True).stdout",
			"line", "key? ", answers("abc"), `'got abc\n'`},
		"child": {"import subprocess\nsubprocess.run(['bash', '-c', 'read -r -p \"key? \" k; echo got $k'], stdout=subprocess.PIPE, text=True).stdout",
			"line", "key? ", answers("abc"), `'got abc\n'`},
		"child, secret": {"import subprocess\nsubprocess.run(['bash', '-c', 'read -r -s -p \"key? \" k; test \"$k\" = abc']).returncode",
			"secret", "key? ", answers("abc"), "0"},
		"long line": {`len(input("? "))`, "line", "? ", answers(strings.Repeat("x", 300_000)), "300000"},
		"eof":       {"try:\n    input('? ')\nexcept EOFError:\n    ok = 1\nok", "line", "? ", []jobs.Input{{EOF: true, Line: true}}, "1"},
		"own stdin": {"import io, sys\nold, sys.stdin = sys.stdin, io.StringIO('from here\\n')\ntry:\n    v = input()\nfinally:\n    sys.stdin = old\ninput(v + '? ')", "line", "from here? ", answers("ok"), "'ok'"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inShort(t, name, "input", "getpass", "readline", "child")
			t.Parallel()
			b := newBench(t)
			j := b.start(test.code)
			for i, answer := range test.answer {
				q := jobstest.Asks(t, j)
				if q.Kind != test.kind {
					t.Errorf("kind %q, want %q", q.Kind, test.kind)
				}
				if i == 0 && q.Prompt != test.prompt {
					t.Errorf("prompt %q, want %q", q.Prompt, test.prompt)
				}
				jobstest.Send(t, j, answer)
			}
			record := jobstest.End(t, j)
			if record.Result != test.result {
				t.Errorf("result %q, want %q; %s; output %q", record.Result, test.result, record.Receipt.Text(), jobstest.Output(j))
			}
			if test.kind == "secret" && strings.Contains(jobstest.Output(j), test.answer[0].Text) {
				t.Errorf("the secret is in the output: %q", jobstest.Output(j))
			}
		})
	}
}

// A program that asks the terminal of its session where the cursor is gets the answer, in each job.
func TestTerminalOfASessionAnswers(t *testing.T) {
	b := newBench(t)
	for range 2 {
		j := b.start(`import subprocess
line = r"""exec </dev/tty 2>/dev/tty; printf 'ab' >&2; IFS='[;' read -r -s -d R -p $'\e[6n' _ row col; printf $row,$col"""
subprocess.run(['bash', '-c', line], stdout=subprocess.PIPE, text=True).stdout`)
		if record := jobstest.End(t, j); record.Result != "'1,3'" {
			t.Errorf("result %q, want '1,3'; %s; output %q", record.Result, record.Receipt.Text(), jobstest.Output(j))
		}
	}
}

func answers(lines ...string) []jobs.Input {
	var in []jobs.Input
	for _, l := range lines {
		in = append(in, jobs.Input{Text: l, Line: true})
	}
	return in
}

// Input is refused that no program waits for, and an answer of two lines.
func TestInputThatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.startUntil("import time\nprint('on')\nwhile not globals().get('go'): time.sleep(0.01)", "on")
	_, err := j.Send(context.Background(), jobs.Input{Text: "stray", Line: true})
	if !errors.Is(err, jobs.ErrNotReading) {
		t.Errorf("error %v, want %v", err, jobs.ErrNotReading)
	}
	b.interrupt(j)
	next := b.start("input('real? ')")
	jobstest.Asks(t, next)
	if _, err := next.Send(context.Background(), jobs.Input{Text: "yes\nno", Line: true}); err == nil {
		t.Error("two lines were taken for one answer")
	}
	jobstest.Send(t, next, jobs.Input{Text: "yes", Line: true})
	if record := jobstest.End(t, next); record.Result != "'yes'" {
		t.Errorf("the answer was %s", record.Result)
	}
	if _, err := next.Send(context.Background(), jobs.Input{Text: "late", Line: true}); !errors.Is(err, jobs.ErrEnded) {
		t.Errorf("error %v, want %v", err, jobs.ErrEnded)
	}
}

// Threads that ask at once are asked in turn, and each gets its own answer.
func TestQuestionsOfThreads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`import threading
got = {}
def ask(n): got[n] = input(f"thread {n}? ")
threads = [threading.Thread(target=ask, args=(n,)) for n in range(3)]
for t in threads: t.start()
for t in threads: t.join()
got == {n: f"answer {n}" for n in range(3)}`)
	for range 3 {
		q := jobstest.Asks(t, j)
		n, ok := strings.CutPrefix(strings.TrimSuffix(q.Prompt, "? "), "thread ")
		if !ok {
			t.Fatalf("prompt %q", q.Prompt)
		}
		jobstest.Send(t, j, jobs.Input{Text: "answer " + n, Line: true})
	}
	if record := jobstest.End(t, j); record.Result != "True" {
		t.Errorf("result %s, output %q", record.Result, jobstest.Output(j))
	}
}

// Code that waits for the terminal beside a socket runs, and takes a line.
func TestInputBesideASocket(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`import os, select, socket
with socket.create_server(("127.0.0.1", 0)) as s:
    select.select([0, s], [], [])
os.read(0, 100)`)
	polltest.Until(t, "that it takes input", func() bool { return j.Record().Accepts.Kind != "" })
	if record := j.Record(); record.Status != jobs.Running {
		t.Errorf("status %s, output %q", record.Status, jobstest.Output(j))
	}
	if d := jobstest.Send(t, j, jobs.Input{Text: "yes", Line: true}); !d.Waiting {
		t.Error("told that nobody waited")
	}
	if record := jobstest.End(t, j); record.Result != `b'yes\n'` {
		t.Errorf("result %s", record.Result)
	}
}

// asks is code of a thread that asks. The job ends once the file go exists.
const asks = `import asyncio, itertools, os, threading, time
got = []
def ask():
    try: got.append(input("? "))
    except EOFError: got.append("end")
thread = threading.Thread(target=ask)
thread.start()
while not os.path.exists("go"): time.sleep(0.001)
`

// An answer that comes while the job of its question ends is not reported as delivered: the reader
// has got the end of file.
func TestAnswerToAnEndingJob(t *testing.T) {
	inFull(t)
	t.Parallel()
	dir := t.TempDir()
	b := newBenchIn(t, dir)
	b.run(`import asyncio, time
slow = []
await asyncio.sleep(0)
loop = asyncio.get_running_loop()
real = loop.is_closed
def is_closed():
    if slow:
        print(slow.pop(), flush=True)
        while not os.path.exists("on"): time.sleep(0.001)
    return real()
loop.is_closed = is_closed`)
	j := b.start(asks + "slow.append('ending')")
	jobstest.Asks(t, j)
	write(t, dir, "go", "")
	jobstest.Prints(t, j, "ending\n")
	sent := make(chan error, 1)
	go func() { // ends with the job
		_, err := j.Send(t.Context(), jobs.Input{Text: "x", Line: true})
		sent <- err
	}()
	for j.Record().Status == jobs.WaitingInput { // until the answer is on its way
	}
	write(t, dir, "on", "")
	jobstest.End(t, j)
	if err := <-sent; !errors.Is(err, jobs.ErrEnded) {
		t.Errorf("the input was sent: %v", err)
	}
	b.result("thread.join(); got", "['end']")
}

// An answer that its reader has not taken, because other code computes, is reported as untaken.
func TestAnswerThatIsNotTaken(t *testing.T) {
	inFull(t)
	if freeThreaded(t, python(t)) {
		t.Skip("in a free-threaded build other code does not keep its reader from it")
	}
	t.Parallel()
	dir := t.TempDir()
	b := newBenchIn(t, dir)
	j := b.start(asks + "print('on', flush=True); sum(itertools.repeat(0))")
	jobstest.Asks(t, j)
	write(t, dir, "go", "")
	jobstest.Prints(t, j, "on\n")
	computes(t, j)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if d, err := j.Send(ctx, jobs.Input{Text: "x", Line: true}); err != nil || d.Waiting || !d.Untaken {
		t.Errorf("delivery %+v, %v", d, err)
	}
}
