package shell_test

import (
	"os/exec"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// asks is the first part of Python programs. Its function ask prints text to a terminal in raw mode
// and returns what is typed up to the last byte of the answer.
const asks = `
import os, termios, tty
before = termios.tcgetattr(0)
def ask(text, last):
    tty.setraw(0)
    try:
        os.write(1, text.encode())
        got = b""
        while not got.endswith(last):
            got += os.read(0, 1)
        return got
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
`

// Programs get the answers of a terminal of 40 rows and 120 columns.
func TestProgramsThatAskTheTerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want string }{
		"bash": {`IFS='[;' read -r -s -d R -p $'ab\e[6n' _ row col; echo "<$row,$col>"`, "<1,3>"},
		"bash, echo turned off late": { // the loop ends when it is in time
			`until printf '\r\e[6n'; IFS='[;' read -r -s -d R -t 1 _ row col; do :; done; echo "<$row,$col>"`, "<1,1>"},
		"stty": {`old=$(stty -g); stty raw -echo min 0 time 50; printf '\e[999;999H\e[6n'; a=$(dd bs=1 count=8 2>/dev/null)
			stty "$old"; echo "<${a#?}>"`, "<[40;120>"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			j := b.start(c.line)
			if record := jobstest.End(t, j); record.Status != jobs.Completed || !strings.Contains(jobstest.Output(j), c.want) {
				t.Errorf("%s, output %q, want %q", record.Receipt.Text(), jobstest.Output(j), c.want)
			}
		})
	}
}

// A program in raw mode gets each answer, and the place of its cursor after whatever it has
// printed.
func TestRawProgramThatAsksTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	program := asks + `
got = [
    ask("\x1b[6n", b"R"), ask("\u6f22\u5b57\x1b[6n", b"R"), ask("x" * 115 + "\u6f22y\x1b[6n", b"R"), ask("\x1b[7;9H\x1b[2A\x1b[?6n", b"R"),
    ask("line\r\n" * 50_000 + "ab\x1b[6n", b"R"), ask("\x1b[c", b"c"), ask("\x1b[>c", b"c"), ask("\x1b[5n", b"n"),
    ask("\x1b[?2004h\x1b[?2004$p", b"y"), ask("\x1b]10;?\a", b"\a"), ask("\x1b]11;?\x1b\\", b"\\"),
]
print("\r\n%s" % got)
`
	b.write("ask.py", program)
	j := b.start("python3 ask.py")
	jobstest.End(t, j)
	want := `[b'\x1b[1;1R', b'\x1b[1;5R', b'\x1b[2;4R', b'\x1b[?5;9R', ` +
		`b'\x1b[40;3R', b'\x1b[?62;22c', b'\x1b[>1;140;0c', b'\x1b[0n', ` +
		`b'\x1b[?2004;1$y', b'\x1b]10;rgb:ffff/ffff/ffff\x07', b'\x1b]11;rgb:0000/0000/0000\x1b\\']`
	if out := jobstest.Output(j); !strings.Contains(out, want) {
		t.Errorf("output %q, want %s", out[max(0, len(out)-1000):], want)
	}
}

// The answers follow the size that a client has set.
func TestAnswersFollowTheSize(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`for i in 1 2; do read -r; IFS='[;' read -r -s -d R -p $'\e[999;999H\e[6n' _ row col; echo; echo "<$row,$col>"; done`)
	jobstest.Asks(t, j)
	jobstest.Send(t, j, jobs.Input{Text: "\n"})
	jobstest.Prints(t, j, "<40,120>")
	jobstest.Asks(t, j)
	jobstest.Send(t, j, jobs.Input{Size: jobs.Size{Rows: 30, Cols: 90}})
	jobstest.Send(t, j, jobs.Input{Text: "\n"})
	jobstest.Prints(t, j, "<30,90>")
	jobstest.End(t, j)
}

// A file that cat shows types nothing, neither at once nor into the program after it.
func TestShownFileTypesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	queries := strings.Repeat("\x1b[6n\x1b[c\x1b[>c\x1b[5n\x1b[?6n\x1b[?25$p\x1b]10;?\a\x1b]11;?\x1b\\", 1000)
	b.write("queries", queries)
	j := b.start(`cat queries; read -r line; echo "<$line>"; read -r -s -d n -p $'\e[5n' a; echo "<${a#?}>"`)
	jobstest.Asks(t, j)
	jobstest.Send(t, j, jobs.Input{Text: "y\n"})
	jobstest.End(t, j)
	if out := jobstest.Output(j)[len(queries):]; !strings.Contains(out, "<y>\r\n") || !strings.Contains(out, "<[0>\r\n") {
		t.Errorf("output %q", out)
	}
}

// A question that has no echo, but is answered by a line, takes no answer of the terminal as a
// password.
func TestPasswordTakesNoAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	j := b.start(`read -r -s -p $'\e[6n\e[cPassword: ' a; echo; echo "<$a>"`)
	jobstest.Asks(t, j)
	jobstest.Send(t, j, jobs.Input{Text: "open\n", Secret: true})
	jobstest.End(t, j)
	if out := jobstest.Output(j); !strings.Contains(out, "<open>\r\n") {
		t.Errorf("output %q", out)
	}
}

// prompt_toolkit, and ipython with it, sees that its terminal says where the cursor is.
func TestPromptToolkitGetsTheCursor(t *testing.T) {
	if testing.Short() {
		t.Skip("imports prompt_toolkit, which takes half a second")
	}
	t.Parallel()
	needtest.Module(t, "python3", "prompt_toolkit")
	b := newBench(t)
	j := b.start(`python3 -c '
from prompt_toolkit import PromptSession
session = PromptSession("name? ")
name = session.prompt()
print(name, session.app.renderer.cpr_support.name)'`)
	jobstest.Asks(t, j)
	jobstest.Send(t, j, jobs.Input{Text: "me\r"})
	if jobstest.End(t, j); !strings.Contains(jobstest.Output(j), "me SUPPORTED") {
		t.Errorf("output %q", jobstest.Output(j))
	}
}

// vim knows its terminal.
func TestVimGetsAnswers(t *testing.T) {
	t.Parallel()
	out := must.Get(exec.Command(needtest.Program(t, "vim"), "--version").Output())(t)
	if !strings.Contains(string(out), "+termresponse") {
		t.Skip("this vim asks nothing")
	}
	b := newBench(t)
	// What is typed before the answer takes its place, so vim says by itself when it has it.
	j := b.start(`vim -u NONE -N --cmd 'autocmd TermResponse * echo "version" v:termresponse[1:]'`)
	jobstest.Prints(t, j, "version [>1;140;0c")
	jobstest.Asks(t, j)
	jobstest.Send(t, j, jobs.Input{Text: ":q\r"})
	jobstest.End(t, j)
}
