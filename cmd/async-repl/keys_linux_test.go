package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/needtest"
)

// A typist is a client that types into one job.
type typist struct {
	*started
	job   string
	reply client.Reply // the last one
}

// typeInto starts a command that waits for input.
func typeInto(t *testing.T, s *started, command string) *typist {
	t.Helper()
	program, _, _ := strings.Cut(command, " ")
	needtest.Program(t, program)
	r := s.do("execute_command_async", "command", command, "wait_seconds", 60)
	holds(t, r, "Status", "waiting_input")
	return &typist{s, r.Header("Job ID"), r}
}

// send sends input, and waits until the program waits again or the job ends.
func (c *typist) send(args ...any) client.Reply {
	c.t.Helper()
	c.reply = c.do("send_command_input", append(args, "job_id", c.job, "wait_seconds", 60)...)
	return c.reply
}

// press sends keys.
func (c *typist) press(keys ...string) client.Reply {
	c.t.Helper()
	return c.send("keys", keys)
}

// shows fails the test unless the last reply contains text.
func (c *typist) shows(text string) {
	c.t.Helper()
	if !strings.Contains(string(c.reply), text) {
		c.t.Errorf("the reply does not hold %q:\n%s", text, c.reply)
	}
}

// The mode is that of all the output, also of what came long before and in pieces.
func TestCursorKeysAfterMuchOutput(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := typeInto(t, s, `sh -c 'stty -icanon -echo; printf "\033[?1"; sleep 0.1; printf h; seq 100000; read -r a; printf "\033[?1l"; exec cat -v'`)
	c.press("up", "enter")
	c.press("up")
	if r := s.prints(c.job, "^[[A"); strings.Contains(string(r), "^[OA") {
		t.Errorf("the first key came after the mode was set back:\n%s", r)
	}
	c = typeInto(t, s, `sh -c 'stty -icanon -echo; printf "\033[?1"; sleep 0.1; printf h; seq 100000; exec cat -v'`)
	c.press("up")
	s.prints(c.job, "^[OA")
}

// The text and ctrl-c are two calls: an interrupt that finds bash 5.2 between two reads of readline can
// stay without effect until the next key.
func TestTimedBashIsEditedByKeys(t *testing.T) {
	timed(t)
	c := typeInto(t, startServer(t), `bash --norc --noprofile -i`)
	c.send("text", "echo o''ne\n") // a line ends with \n here as well
	c.shows("\none\n")
	c.press("up", "enter")
	c.shows("\none\n")
	c.press("ctrl-r", "o''n", "enter")
	c.shows("\none\n")
	c.press("e", "c", "h", "o", " 2", "left", "1", "enter")
	c.shows("\n12\n")
	c.send("text", "echo l''ost")
	c.press("ctrl-c")
	if strings.Contains(string(c.reply), "\nlost\n") {
		t.Errorf("the interrupted line was run:\n%s", c.reply)
	}
	c.press("ctrl-d")
	holds(t, c.reply, "Status", "failed (exit 130)")
}

// bash asks for brackets, so it runs nothing of what is pasted before Enter. Without a request the
// lines are typed.
func TestPasteIsBracketedWhereTheProgramAsks(t *testing.T) {
	t.Parallel()
	c := typeInto(t, startServer(t), `bash --norc --noprofile -i`)
	c.send("text", "bind 'set enable-bracketed-paste on'\n")
	c.send("text", "echo o''ne\necho t''wo", "paste", true)
	if strings.Contains(string(c.reply), "\none\n") {
		t.Errorf("a pasted line was run before Enter:\n%s", c.reply)
	}
	c.press("enter")
	c.shows("\none\ntwo\n")
	text := c.refused("send_command_input", "job_id", c.job, "text", "x\x1b[201~rm -r x\n", "paste", true)
	if want := "Pasted text holds control characters: send them with keys or"; !strings.Contains(text, want) {
		t.Errorf("the end of the brackets in a paste: %q", text)
	}
	c.send("text", "bind 'set enable-bracketed-paste off'\n")
	c.send("text", "echo o''ne\necho t''wo\n", "paste", true)
	c.shows("\none\n")
	c.shows("\ntwo\n")
}

func TestLessIsPagedAndLeftByKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "line %d\n", i+1)
	}
	s.write("lines", lines.String())
	c := typeInto(t, s, `less lines`)
	c.shows("line 39\n")
	c.press("pagedown")
	c.shows("line 78\n")
	c.press("down", "down")
	c.shows("line 80\n")
	c.press("/", "line 500", "enter")
	c.shows("line 538\n")
	c.press("=")
	c.shows("--- SCREEN ROWS CHANGED ---\n40: lines lines 500-538/1000")
	c.press("q")
	holds(t, c.reply, "Status", "completed")
}

func TestViIsDrivenByKeys(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := typeInto(t, s, `vi -N -u NONE note`)
	c.press("i", "hello world", "enter", "b")
	c.press("left", "a", "esc")
	c.press(":wq", "enter")
	holds(t, c.reply, "Status", "completed")
	if b, err := os.ReadFile(filepath.Join(s.dir, "note")); string(b) != "hello world\nab\n" {
		t.Errorf("the file holds %q (%v)", b, err)
	}
}

// Esc is a key of its own, also for a vi without settings: vim 9.0 waits a second for an escape
// sequence.
func TestTimedEscEndsTheModeOfVi(t *testing.T) {
	timed(t)
	s := startServer(t)
	c := typeInto(t, s, `vi -u NONE -N note`)
	c.press("i", "x", "esc", "O", "Above", "esc", ":wq", "enter")
	holds(t, c.reply, "Status", "completed", "Input", "delivered")
	if b, err := os.ReadFile(filepath.Join(s.dir, "note")); string(b) != "Above\nx\n" {
		t.Errorf("the file holds %q (%v)", b, err)
	}
}

// A tab completes in node, which takes one among other keys for pasted text.
func TestTimedTabCompletesInNode(t *testing.T) {
	timed(t)
	c := typeInto(t, startServer(t), `node`)
	c.press("proces", "tab", ".pid > 0", "enter")
	c.shows("\ntrue\n")
}

// Keys that are held back after Esc follow after the call, and other input behind them.
func TestTimedKeysFollowTheirCall(t *testing.T) {
	timed(t)
	s := startServer(t)
	c := typeInto(t, s, `sh -c 'stty raw -echo; exec cat -v'`)
	r := s.do("send_command_input", "job_id", c.job, "keys", []string{"a", "esc", "O", "b"}, "wait_seconds", 0.5)
	holds(t, r, "Status", "running", "Input", "2 of 4 keys typed; the rest follows")
	r = s.do("send_command_input", "job_id", c.job, "text", "c", "wait_seconds", 0)
	holds(t, r, "Status", "running", "Input", "it follows when earlier keys are typed")
	r = c.press("d")
	holds(t, r, "Status", "waiting_input", "Input", "typed after earlier keys")
	c.shows("\nObcd\n")
}

func TestPythonReplIsDrivenByKeys(t *testing.T) {
	t.Parallel()
	c := typeInto(t, startServer(t), `env PYTHON_BASIC_REPL=1 python3 -q`) // with readline, as before 3.13
	c.send("text", "x = 6\n")
	c.send("text", "x * 7\n")
	c.shows("\n42\n")
	c.press("up", "backspace", "8", "enter")
	c.shows("\n48\n")
	c.press("ctrl-d")
	holds(t, c.reply, "Status", "completed")
}

// A new size reaches the programs in the foreground before what is typed.
func TestSizeOfATerminal(t *testing.T) {
	t.Parallel()
	c := typeInto(t, startServer(t), `python3 -c 'import os, signal
def show(*_): print(*os.get_terminal_size(), flush=True)
signal.signal(signal.SIGWINCH, show)
while True:
    show()
    input("? ")'`)
	c.shows("120 40\n")
	r := c.send("size", []int{50, 132})
	holds(t, r, "Input", "terminal resized to 50x132")
	c.shows("132 50\n")
	r = c.send("size", []int{1, 1000}, "text", "\n")
	holds(t, r, "Input", "terminal resized to 1x1000; delivered")
	c.shows("1000 1\n? ")
}

func TestSignalsReachTheForeground(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	names := []string{"INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT", "TSTP"}
	catch := `python3 -c 'import signal, time
for name in "` + strings.Join(names, " ") + `".split():
    signal.signal(getattr(signal, "SIG" + name), lambda n, _: print("caught", signal.Signals(n).name + ".", flush=True))
print("ready", flush=True)
while True: time.sleep(1)'`
	for _, tty := range []bool{true, false} {
		id := s.do("execute_command_async", "command", catch, "tty", tty, "wait_seconds", 0).Header("Job ID")
		s.prints(id, "ready")
		for _, name := range names {
			r := s.do("send_command_input", "job_id", id, "signal", name, "wait_seconds", 0)
			if got := r.Header("Input"); !strings.HasPrefix(got, "SIG"+name+" sent to ") || !strings.Contains(got, "python3 (pid ") {
				t.Errorf("tty %t, %s: %q", tty, name, got)
			}
			s.prints(id, "caught SIG"+name+".")
		}
		s.do("cancel_job", "job_id", id, "force", true)
	}
}

// A process group in the background gets nothing, and a stopped one in the foreground continues.
func TestSignalStopsAndContinuesTheForeground(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	id := s.do("execute_command_async", "command", `set -m; sleep 300 & cat; echo stopped; fg %cat; echo over`, "wait_seconds", 60).Header("Job ID")
	r := s.do("send_command_input", "job_id", id, "signal", "TSTP", "wait_seconds", 0)
	if got := r.Header("Input"); !strings.HasPrefix(got, "SIGTSTP sent to cat (pid ") || strings.Contains(got, ",") {
		t.Errorf("sent to %q", got)
	}
	s.prints(id, "stopped")
	s.do("send_command_input", "job_id", id, "eof", true)
	s.prints(id, "over")
}

// What ended because of a signal or a key that the client sent says so.
func TestReceiptOfASignalThatWasSent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	// No shell: bash 5.2 can send itself an interrupt that meets its read again and again.
	const quits = `exec python3 -I -S -c 'import signal, sys; [signal.signal(s, lambda *_: sys.exit()) for s in (2, 15)]; input()'`
	for _, c := range []struct {
		command string
		name    string
		value   any
		status  string
		by      string
	}{
		{"exec cat", "signal", "TERM", "failed (killed by SIGTERM)", "agent"},
		{"exec cat", "signal", "sigint", "failed (killed by SIGINT)", "agent"},
		{"exec cat", "keys", []string{"ctrl-c"}, "failed (killed by SIGINT)", "agent"},
		{"exec cat", "keys", []string{`ctrl-\`}, "failed (killed by SIGQUIT)", "agent"},
		{quits, "signal", "INT", "completed (exit 0 after an interrupt)", "agent"},
		{quits, "keys", []string{"ctrl-c"}, "completed (exit 0 after an interrupt)", "agent"},
		{quits, "signal", "TERM", "completed (exit 0 after a termination)", "agent"},
		{quits, "text", "x\n", "completed", ""},
	} {
		id := s.do("execute_command_async", "command", c.command, "wait_seconds", 60).Header("Job ID")
		r := s.do("send_command_input", "job_id", id, c.name, c.value, "wait_seconds", 60)
		holds(t, r, "Status", c.status, "Ended by", c.by)
		if list := s.do("list_jobs", "limit", 1); !strings.Contains(string(list), id+" "+c.status+", ") {
			t.Errorf("want %s in the list:\n%s", c.status, list)
		}
	}
	id := s.do("execute_command_async", "command", `kill -TERM $$`, "wait_seconds", 60).Header("Job ID")
	holds(t, s.end(id), "Status", "failed (killed by SIGTERM)", "Ended by", "outside or unknown")
}

// What a job can't be sent is refused with what to do, and nothing of it takes effect.
func TestInputThatIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	start := func(command string, tty bool) string {
		r := s.do("execute_command_async", "command", command, "tty", tty, "wait_seconds", 0)
		s.prints(r.Header("Job ID"), "ready")
		return r.Header("Job ID")
	}
	terminal, pipes := start(`echo ready; cat -v; stty size`, true), start(`echo ready; exec cat`, false)
	r := s.do("execute_python", "code", "input()", "wait_seconds", 60)
	holds(t, r, "Status", "waiting_input")
	const list = "Keys are: enter, tab, esc, space, backspace, delete, insert, up, down, left, right, home, end, pageup, pagedown, f1 to f12; " +
		"chords such as ctrl-c, alt-x and shift-tab; and single characters. To type a word, use text."
	const signals = "signal must be one of: INT, TERM, HUP, QUIT, USR1, USR2, WINCH, CONT, TSTP."
	for _, c := range []struct {
		job  string
		args []any
		want string
	}{
		{terminal, []any{"keys", []string{"entr"}}, "keys[0] (entr) is not a key. Did you mean enter? " + list},
		{terminal, []any{"keys", []string{"ctrl-foo", "enter"}}, "keys[0] (ctrl-foo) is not a key. " + list},
		{terminal, []any{"keys", []string{"q", "<F13>"}}, "keys[1] (<F13>) is not a key. " + list},
		{terminal, []any{"keys", []string{"arrow_up"}}, "keys[0] (arrow_up) is not a key. Did you mean up? " + list},
		{terminal, []any{"keys", []string{"foo"}}, "keys[0] (foo) is not a key. " + list},
		{terminal, []any{"keys", []string{"enter", ""}}, "keys[1] is empty."},
		{terminal, []any{"keys", []string{}}, `There is nothing to send: give text (a line ends with \n), keys, eof, signal or size.`},
		{terminal, []any{"signal", "STOP"}, signals},
		{terminal, []any{"signal", "SIGUSR"}, signals + " Did you mean USR1 or USR2?"},
		{terminal, []any{"signal", "SIGKILL"}, "signal may not be KILL: cancel_job with force=true kills the job and all its processes."},
		{terminal, []any{"size", []int{0, 80}}, "size (rows) must be 1 or more."},
		{terminal, []any{"size", []int{24, 1001}}, "size (columns) may be 1,000 at most."},
		{terminal, []any{"size", []int{24}}, "size must be [rows, columns]."},
		{terminal, []any{"size", 24}, "size must be [rows, columns], not a number."},
		{terminal, []any{"paste", true}, "paste needs text: it is what is pasted."},
		{terminal, []any{"secret", true}, `There is nothing to send: give text (a line ends with \n), keys, eof, signal or size.`},
		{terminal, []any{"size", []int{9, 9}, "signal", "INT", "text", "x", "secret", true}, "The terminal would echo a secret into the output: wait until the job asks with Waiting: secret"},
		{terminal, []any{"size", []int{9, 9}, "signal", "INT", "keys", []string{"x"}, "secret", true}, "The terminal would echo a secret into the output: wait until the job asks with Waiting: secret"},
		{pipes, []any{"text", "typed", "keys", []string{"enter"}}, "The command was started on pipes, without a terminal: it takes text, eof and signal; start it without tty=false for keys, paste and size"},
		{pipes, []any{"text", "pasted", "paste", true}, "The command was started on pipes, without a terminal: "},
		{pipes, []any{"text", "typed", "size", []int{9, 9}}, "The command was started on pipes, without a terminal: "},
		{r.Header("Job ID"), []any{"keys", []string{"enter"}}, "is a Python job: only shell jobs take keys, paste, size and signal. Answer a question with send_python_input; cancel_job interrupts. Nothing was sent."},
	} {
		if got := s.refused("send_command_input", append(c.args, "job_id", c.job)...); !strings.Contains(got, c.want) {
			t.Errorf("%v:\n%s\nwant %s", c.args, got, c.want)
		}
	}
	for id, want := range map[string]string{terminal: "ready\n40 120\n", pipes: "ready\n"} {
		s.do("send_command_input", "job_id", id, "eof", true)
		if got := s.end(id).Section("STDOUT"); got != want {
			t.Errorf("a refused input took effect: %q", got)
		}
	}
	closed := start(`echo ready; cat; echo over; exec sleep 300`, false)
	s.do("send_command_input", "job_id", closed, "eof", true)
	s.prints(closed, "over")
	text := s.refused("send_command_input", "job_id", closed, "signal", "TERM", "text", "x")
	if r := s.do("check_job_status", "job_id", closed, "wait_seconds", 0.1); !strings.Contains(text, "closed by an earlier eof") || r.Header("Status") != "running" {
		t.Errorf("after the end of file: %s\n%s", text, r)
	}
}

// timed is for a test that holds only if its program gets a processor in time, as the pace of keys
// supposes. The gate runs it with nothing beside it.
func timed(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it must run alone")
	}
}
