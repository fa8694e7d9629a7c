package shell_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A command takes input from the moment that its job is running.
func TestRunningCommandTakesInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		start func(string) *jobs.Job
		paste bool
	}{"terminal": {b.start, false}, "pasted": {b.start, true}, "pipes": {b.startPiped, false}} {
		for range 20 {
			j := c.start("read -r a; echo got $a")
			j.AwaitStart(t.Context())
			if _, err := j.Send(t.Context(), jobs.Input{Text: "this\n", Paste: c.paste}); err != nil {
				t.Fatalf("%s: %v in status %s", name, err, j.Record().Status)
			}
			jobstest.Prints(t, j, "got this")
			jobstest.End(t, j)
		}
	}
}

// A question is a command line that asks, and what answers it.
type question struct {
	line   string
	kind   string
	prompt string // anyPrompt: not compared
	send   []jobs.Input
	output string // the end of it
}

const anyPrompt = "whatever is the last line of the output"

// answer starts the line, answers what it asks, and compares its output.
func (test question) answer(t *testing.T, start func(line string) *jobs.Job) {
	t.Helper()
	j := start(test.line)
	for i, in := range test.send {
		q := jobstest.Asks(t, j)
		if q.Kind != test.kind || !strings.HasPrefix(q.By, "read by ") || i == 0 && test.prompt != anyPrompt && q.Prompt != test.prompt {
			t.Errorf("question %q %q, %s; want %q %q", q.Kind, q.Prompt, q.By, test.kind, test.prompt)
		}
		if d := jobstest.Send(t, j, in); !d.Waiting {
			t.Error("the reply would not say that a program was waiting")
		}
	}
	jobstest.EndsAs(t, j, "completed")
	out := strings.ReplaceAll(jobstest.Output(j), "\r\n", "\n")
	if !strings.HasSuffix(out, test.output) {
		t.Errorf("output ends with %q, want %q", out[max(0, len(out)-100):], test.output)
	}
	if test.kind == "secret" && strings.Contains(out, strings.TrimSpace(test.send[0].Text)) {
		t.Errorf("the secret is in the output: %q", out)
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]question{
		"read":    {`read -r -p "Proceed? [y/N] " a; echo "<$a>"`, "line", "Proceed? [y/N] ", []jobs.Input{{Text: "y\n"}}, "<y>\n"},
		"no end":  {`read -r -p "? " a; echo "<$a>"`, "line", "? ", []jobs.Input{{Text: "half"}, {Text: " and half\n"}}, "<half and half>\n"},
		"secret":  {`read -r -s -p "PIN: " a; echo; test "$a" = 1234 && echo right`, "secret", "PIN: ", []jobs.Input{{Text: "1234\n", Secret: true}}, "right\n"},
		"key":     {`read -r -n1 -p "any key " a; echo "<$a>"`, "key", "any key ", []jobs.Input{{Text: "q"}}, "<q>\n"},
		"eof":     {`cat; echo over`, "line", "", []jobs.Input{{EOF: true}}, "over\n"},
		"half":    {`cat; echo over`, "line", "", []jobs.Input{{Text: "half", EOF: true}}, "halfover\n"},
		"python":  {`python3 -c 'print(input("name? ")[::-1])'`, "line", "name? ", []jobs.Input{{Text: "abc\n"}}, "cba\n"},
		"tty":     {`read -r -p "from tty: " a < /dev/tty; echo "<$a>"`, "line", "from tty: ", []jobs.Input{{Text: "z\n"}}, "<z>\n"},
		"dressed": {`printf '\033[1mBold?\033[0m '; read -r a; echo "<$a>"`, "line", "Bold? ", []jobs.Input{{Text: "z\n"}}, "<z>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.answer(t, newBench(t).start)
		})
	}
}

// A program that asks is seen although it also waits for processes of its own job, which wait
// themselves. Without one of them at rest, the job only accepts input.
func TestQuestionBesideProcessesOfTheJob(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two processes of Python or node in each case")
	}
	t.Parallel()
	const server = `import socket, subprocess, sys, select
if len(sys.argv) == 1:
    s = socket.create_server(("127.0.0.1", 0))
    subprocess.Popen([sys.executable, __file__, str(s.getsockname()[1])], stdin=subprocess.DEVNULL)
    c = s.accept()[0]
    s.close()
    print("name? ", end="", flush=True)
    select.select([0, c], [], [])
    print("<" + input() + ">")
    c.send(b"over")
else:
    socket.create_connection(("127.0.0.1", int(sys.argv[1]))).recv(1)
`
	const works = `import os, select, time
r, w = os.pipe()
if not os.fork():
    while True: time.sleep(0.01)
os.close(w)
print("name? ", end="", flush=True)
select.select([0, r], [], [])
print("<" + input() + ">", flush=True)
os.killpg(0, 9)
`
	const node = `const { fork } = require("child_process")
if (process.argv[2]) {
  process.on("message", m => { process.disconnect() })
} else {
  const child = fork(__filename, ["child"], { stdio: ["ignore", "inherit", "inherit", "ipc"] })
  child.send("hello")
  child.on("disconnect", () => {
    const quiet = fork(__filename, ["child"], { stdio: ["ignore", "inherit", "inherit", "ipc"] })
    process.stdout.write("name? ")
    process.stdin.once("data", d => { console.log("<" + String(d).trim() + ">"); quiet.send("over"); process.stdin.destroy() })
  })
}
`
	for name, test := range map[string]struct {
		program, code string
		accepts       bool
	}{
		"process substitution": {"bash", `exec 3< <(sleep 1000); python3 -c '
import select; print("name? ", end="", flush=True); select.select([0, 3], [], []); print("<" + input() + ">")'; kill $!`, false},
		"connection within the job": {"python3", server, false},
		"node and its child":        {"node", node, false},
		"a child at work":           {"python3", works, true},
	} {
		t.Run(name, func(t *testing.T) {
			needtest.Program(t, test.program)
			t.Parallel()
			b := newBench(t)
			b.write("program.js", test.code)
			j := b.start(test.program + " " + b.dir + "/program.js")
			if test.accepts {
				accepts(t, j)
			} else if q := jobstest.Asks(t, j); q.Prompt != "name? " {
				t.Errorf("it asks %q", q.Prompt)
			}
			jobstest.Send(t, j, jobs.Input{Text: "it\n"})
			jobstest.Prints(t, j, "<it>")
			jobstest.End(t, j)
		})
	}
}

func TestStoppedReaderIsNamed(t *testing.T) {
	t.Parallel()
	j := newBench(t).start(`set -m; cat & echo "<cat (pid $!)>"; sleep 1000`)
	polltest.Until(t, "the name", func() bool { return j.Record().Stopped != "" })
	if record := j.Record(); record.Status != jobs.Running || !strings.Contains(jobstest.Output(j), "<"+record.Stopped+">") {
		t.Errorf("%s, %q was stopped; printed %q", record.Status, record.Stopped, jobstest.Output(j))
	}
}

// A program that drops its input when it reacts to a new size or a signal gets what was sent along.
func TestTypedAfterAReaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, in := range []jobs.Input{{Size: jobs.Size{Rows: 10, Cols: 20}}, {Signal: "WINCH"}} {
		j := b.start(`exec python3 -I -S -c '
import os, signal, termios, time, tty
def react(*_):
    time.sleep(0.1)
    termios.tcflush(0, termios.TCIFLUSH)
signal.signal(signal.SIGWINCH, react)
tty.setcbreak(0)
line = b""
while not line.endswith(b"\n"):
    line += os.read(0, 1)
print(line)'`)
		jobstest.Asks(t, j)
		in.Text = "joe\n"
		if d := jobstest.Send(t, j, in); !d.Waiting {
			t.Error("told that no program was waiting")
		}
		jobstest.End(t, j)
		if out := jobstest.Output(j); !strings.Contains(out, `b'joe\n'`) {
			t.Errorf("output %q", out)
		}
	}
}

// Input can come before the scan that sees a program wait again. The reply must not say then that no
// program was waiting.
func TestInputSoonAfterOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, start := range map[string]func(string) *jobs.Job{"terminal": b.start, "pipes": b.startPiped} {
		j := start("exec cat")
		for range 10 {
			jobstest.Asks(t, j)
			for n := range 3 {
				if d := jobstest.Send(t, j, jobs.Input{Text: "x\n"}); !d.Waiting && !d.Unsure {
					t.Errorf("%s: input %d: told that no program was waiting", name, n)
				}
			}
		}
		jobstest.Send(t, j, jobs.Input{EOF: true})
		jobstest.End(t, j)

		j = start("echo on; exec sleep 1000")
		jobstest.Prints(t, j, "on")
		polltest.Until(t, name+": it to be known that no program waits", func() bool {
			d := jobstest.Send(t, j, jobs.Input{Text: "x\n"})
			return !d.Waiting && !d.Unsure
		})
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
		jobstest.End(t, j)
	}
}

// The terminal makes a signal of the key that interrupts a busy program, whatever is sent with it.
func TestKeysThatAreSignalsAmongOtherInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	with := func(in jobs.Input, change func(*jobs.Input)) jobs.Input { change(&in); return in }
	for _, c := range []struct {
		in   jobs.Input
		made string
		rest bool
	}{
		{press("esc", "ctrl-c"), "SIGINT", false},
		{with(press("ctrl-c"), func(in *jobs.Input) { in.Text = "a" }), "SIGINT", false},
		{with(press("ctrl-c"), func(in *jobs.Input) { in.EOF = true }), "SIGINT", true},
		{with(press("esc", "ctrl-c"), func(in *jobs.Input) { in.EOF = true }), "SIGINT", true},
		{press("ctrl-c", "ctrl-\\", "a"), "SIGQUIT", true},
		{press("esc", "a"), "", false},
	} {
		j := b.start("trap '' INT QUIT; echo on; while :; do :; done")
		jobstest.Prints(t, j, "on")
		if d := jobstest.Send(t, j, c.in); d.Made != c.made || d.Rest != c.rest {
			t.Errorf("%+v: the terminal made %q of it, with a rest %t", c.in, d.Made, d.Rest)
		}
		j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
		jobstest.End(t, j)
	}
}

// A busy program never reads the key that interrupts it: the terminal makes a signal of it.
func TestKeysThatAreSignals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct{ line, made, status string }{
		{"echo on; while :; do :; done", "SIGINT", "failed (killed by SIGINT)"},
		{"stty -isig; echo on; read x; echo $x; exit 3", "", "failed (exit 3)"},
		{"trap 'exit 4' INT; echo on; while :; do :; done", "SIGINT", "failed (exit 4)"},
	} {
		j := b.start(c.line)
		jobstest.Prints(t, j, "on")
		if d := jobstest.Send(t, j, press("ctrl-c")); d.Made != c.made {
			t.Errorf("%s: the terminal made %q of ctrl-c, not %q", c.line, d.Made, c.made)
		}
		if c.made == "" {
			jobstest.Send(t, j, jobs.Input{Text: "\n"})
		}
		jobstest.EndsAs(t, j, c.status)
	}
}

func TestTypedAheadArrives(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`echo on; while ! test -e go; do :; done; read -r a; read -r b; echo "<$a$b>"`)
	jobstest.Prints(t, j, "on")
	if d := jobstest.Send(t, j, jobs.Input{Text: "one\ntwo\n"}); d.Waiting {
		t.Error("told that a program was waiting")
	}
	b.write("go", "")
	jobstest.End(t, j)
	if out := jobstest.Output(j); !strings.Contains(out, "<onetwo>") {
		t.Errorf("output %q", out)
	}
}

// A program is seen to wait even if its parents have ended just before or during the scan, and no
// process of the job runs afterwards.
func TestOrphanIsSeenToWait(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`exec 3<&0; (cat <&3 &); sleep 300`,
		`exec 3<&0; (sh -c 'sleep 0.3; head -n1 >/dev/null; head -n1' <&3 & sleep 0.5); sleep 300`,
		`exec 3<&0; (sh -c 'sleep 0.7; read x; read x' <&3 & sleep 0.5); sleep 300`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			jobstest.Asks(t, newBench(t).start(line))
		})
	}
}

func TestInputThatATerminalWouldSpoilIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`read -r a; echo "<$a>"`)
	jobstest.Asks(t, j)
	for name, test := range map[string]struct {
		in   jobs.Input
		want error
	}{
		"long":    {jobs.Input{Text: strings.Repeat("x", 5000) + "\n"}, tty.ErrLineTooLong},
		"control": {jobs.Input{Text: "a\x03b\n"}, tty.ErrControl},
		"secret":  {jobs.Input{Text: "1234\n", Secret: true}, tty.ErrEcho},
	} {
		if _, err := j.Send(context.Background(), test.in); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
	}
	jobstest.Send(t, j, jobs.Input{Text: "ok\n"})
	jobstest.End(t, j)
	if out := jobstest.Output(j); !strings.HasSuffix(out, "<ok>\r\n") || strings.Contains(out, "1234") {
		t.Errorf("output %q", out)
	}
	if _, err := j.Send(context.Background(), jobs.Input{Text: "late\n"}); !errors.Is(err, jobs.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// A program that waits for its terminal and for something else as well is running, and what is sent
// to it is delivered.
func TestInputWhileWaitingForMoreThanTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`exec python3 -c '
import os, select, socket
s = socket.create_server(("127.0.0.1", 0))
while (a := s in select.select([s, 0], [], [])[0] or os.read(0, 100)) != b"q\n": print("got", a, flush=True)
s.close()
print("waiting"); select.select([0], [], [])'`)
	accepts(t, j)
	if by := j.Record().Accepts.By; !strings.HasPrefix(by, "read by python3 (pid ") || !strings.Contains(by, "), which also listens on 127.0.0.1:") {
		t.Errorf("input is %s", by)
	}
	if d := jobstest.Send(t, j, jobs.Input{Text: "x\n"}); !d.Waiting {
		t.Error("the reply would not say that a program was waiting")
	}
	jobstest.Prints(t, j, "got")
	accepts(t, j)
	jobstest.Send(t, j, jobs.Input{Text: "q\n"})
	if q := jobstest.Asks(t, j); q.Kind != "line" {
		t.Errorf("question %+v", q)
	}
	if record := j.Record(); record.Accepts.Kind != "" {
		t.Errorf("waits and accepts: %+v", record)
	}
	j.Stop(jobs.Stop{By: jobs.Agent, From: jobs.Kill})
	jobstest.End(t, j)
}

// accepts waits until a running job takes input.
func accepts(t *testing.T, j *jobs.Job) {
	t.Helper()
	polltest.Until(t, "that it takes input", func() bool {
		record := j.Record()
		if record.Status != jobs.Running && record.Status != jobs.Queued {
			t.Fatalf("status %s, output %q", record.Status, jobstest.Output(j))
		}
		return record.Accepts.Kind != ""
	})
}
