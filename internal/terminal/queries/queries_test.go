//go:build linux

package queries_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/output"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/queries"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// A terminal is one whose program is the test.
type terminal struct {
	t    testing.TB
	pty  *tty.PTY
	log  output.Log
	pump *pump.Pump
	*queries.Responder

	mu    sync.Mutex
	tree  []int
	scans int // the number of scans of the tree
}

func newTerminal(t testing.TB) *terminal {
	t.Helper()
	pty := must.Get(tty.Open(24, 80))(t)
	x := &terminal{t: t, pty: pty, log: output.NewStore(output.Config{}).NewLog("1"), tree: []int{1, 2}}
	x.Responder = queries.New(pty, func() ([]int, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.scans++
		return x.tree, nil
	})
	x.SetTooLate(polltest.Patience) // to draw a screen takes long on a busy machine
	x.pump = pump.Shared(pty.Master(), func(b []byte) { x.Printed(x.log, x.log.Write(output.TTY, b), b) })
	t.Cleanup(func() {
		x.pump.Close()
		x.Close()
		pty.Close()
	})
	return x
}

// mode sets whether the terminal echoes and whether it passes input on in lines.
func (x *terminal) mode(echo, canon bool) {
	x.t.Helper()
	c := must.Get(x.pty.Slave().SyscallConn())(x.t)
	must.Do(x.t, c.Control(func(fd uintptr) {
		mode := must.Get(unix.IoctlGetTermios(int(fd), unix.TCGETS))(x.t)
		mode.Lflag &^= unix.ECHO | unix.ICANON
		if echo {
			mode.Lflag |= unix.ECHO
		}
		if canon {
			mode.Lflag |= unix.ICANON
		}
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
		must.Do(x.t, unix.IoctlSetTermios(int(fd), unix.TCSETS, mode))
	}))
}

// print prints text and waits until all of it has been read.
func (x *terminal) print(text string) {
	x.t.Helper()
	x.write(text)
	polltest.Until(x.t, "the output to be read", func() bool { return !x.pty.InTransit() || x.unread() > 0 })
	x.pump.Drain()
}

// write prints text.
func (x *terminal) write(text string) {
	x.t.Helper()
	must.Get(x.pty.Slave().WriteString(text))(x.t)
}

func (x *terminal) unread() (n int) {
	c := must.Get(x.pty.Slave().SyscallConn())(x.t)
	must.Do(x.t, c.Control(func(fd uintptr) { n, _ = pump.Buffered(int(fd)) }))
	return n
}

// well is the answer to the query by which a test knows that earlier queries were dealt with.
const well = "\x1b[0n"

// answers prints text in a silent terminal and returns what is typed then.
func (x *terminal) answers(text string) string {
	x.t.Helper()
	x.mode(false, false)
	x.write(text + "\x1b[5n")
	return x.typed()
}

// typed returns what is typed up to an answer that all is well.
func (x *terminal) typed() string {
	x.t.Helper()
	got := make(chan string, 1)
	go func() { // ends when the terminal is closed
		var b []byte
		for !strings.HasSuffix(string(b), well) {
			c := make([]byte, 100)
			n, err := x.pty.Slave().Read(c)
			b = append(b, c[:n]...)
			if err != nil {
				break
			}
		}
		got <- strings.TrimSuffix(string(b), well)
	}()
	select {
	case s := <-got:
		return s
	case <-time.After(polltest.Patience):
		x.t.Fatalf("no answer comes; the output is %q", output.Tail(x.log, 1000))
	}
	return ""
}

func (x *terminal) idle() {
	x.t.Helper()
	polltest.Until(x.t, "all queries to be dealt with", x.Idle)
}

func TestAnswers(t *testing.T) {
	long := strings.Repeat("a line of \x1b[1;31mcolour\x1b[m\r\n", 20_000)
	for name, c := range map[string]struct{ printed, want string }{
		"cursor":             {"\x1b[6n", "\x1b[1;1R"},
		"cursor, extended":   {"\x1b[?6n", "\x1b[?1;1R"},
		"after text":         {"abc\r\nde\x1b[6n", "\x1b[2;3R"},
		"wide characters":    {"\u6f22\u5b57\x1b[6n", "\x1b[1;5R"},
		"combining":          {"e\u0301\U0001f469\u200d\U0001f52c\x1b[6n", "\x1b[1;4R"},
		"the last column":    {strings.Repeat("x", 80) + "\x1b[6n", "\x1b[1;80R"},
		"a wrapped line":     {strings.Repeat("x", 81) + "\x1b[6n", "\x1b[2;2R"},
		"wide and wrapped":   {strings.Repeat("x", 79) + "\u6f22\x1b[6n", "\x1b[2;3R"},
		"moved":              {"\x1b[10;20H\x1b[2A\x1b[3C\x1b[6n", "\x1b[8;23R"},
		"beyond the end":     {"\x1b[999;999H\x1b[6n", "\x1b[24;80R"},
		"saved and restored": {"\x1b[5;5H\x1b7\x1b[9;9H\x1b8\x1b[6n", "\x1b[5;5R"},
		"scrolled":           {strings.Repeat("x\r\n", 100) + "\x1b[6n", "\x1b[24;1R"},
		"another screen":     {"ab\x1b[?1049h\x1b[3;3H\x1b[6n\x1b[?1049l\x1b[6n", "\x1b[3;3R\x1b[1;3R"},
		"each at its place":  {"a\x1b[6nbc\x1b[6n\r\nd\x1b[6n", "\x1b[1;2R\x1b[1;4R\x1b[2;2R"},
		"DA1":                {"\x1b[c\x1b[0c", "\x1b[?62;22c\x1b[?62;22c"},
		"DA2":                {"\x1b[>c\x1b[>0c", "\x1b[>1;140;0c\x1b[>1;140;0c"},
		"status":             {"\x1b[5n", well},
		"an unknown mode":    {"\x1b[?2026$p\x1b[99$p", "\x1b[?2026;0$y\x1b[99;0$y"},
		"modes at first":     {"\x1b[?25$p\x1b[?2004$p\x1b[4$p", "\x1b[?25;1$y\x1b[?2004;2$y\x1b[4;2$y"},
		"modes switched":     {"\x1b[?25;1l\x1b[?2004h\x1b[4h\x1b[?25$p\x1b[?2004$p\x1b[4$p", "\x1b[?25;2$y\x1b[?2004;1$y\x1b[4;1$y"},
		"modes reset":        {"\x1b[?2004h\x1bc\x1b[?2004$p", "\x1b[?2004;2$y"},
		"modes reset softly": {"\x1b[?25l\x1b[?2004h\x1b[!p\x1b[?25$p\x1b[?2004$p", "\x1b[?25;1$y\x1b[?2004;1$y"},
		"a screen's mode":    {"\x1b[?47h\x1b[?1049$p", "\x1b[?1049;1$y"},
		"colours by BEL":     {"\x1b]10;?\a\x1b]11;?\a", "\x1b]10;rgb:ffff/ffff/ffff\a\x1b]11;rgb:0000/0000/0000\a"},
		"colours by ST":      {"\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"},
		"text of the output": {"\x1b]0;rm -rf\a\x1b[21t\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b]52;c;?\a\x1b]4;1;?\a\x05", ""},
		"other sequences":    {"\x1b[=c\x1b[>q\x1b[1;6n\x1b[7n\x1b[18t\x1b[?u\x1b[1c", ""},

		// A program begins to ask when much has been printed already.
		"after lines":             {long + "ab\x1b[6n", "\x1b[24;3R"},
		"after a full screen":     {long + "ab\x1b[?1049h\x1b[3;3H\x1b[6n\x1b[?1049l\x1b[6n", "\x1b[3;3R\x1b[24;3R"},
		"after lines, moved":      {long + "\x1b[5;7H\x1b[6n", "\x1b[5;7R"},
		"after lines, unfinished": {long + strings.Repeat("\x1b[", 1000) + "\x1b[9;9H\x1b[6n", "\x1b[9;9R"},
		"after a long line":       {strings.Repeat("x", 2001) + "\r\n\x1b[6n", "\x1b[24;1R"},
		"after nothing but NULs":  {"\x1b[7;7H" + strings.Repeat("\x00", 1000) + "\x1b[6n", "\x1b[7;7R"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newTerminal(t).answers(c.printed); got != c.want {
				t.Errorf("answer %q, want %q", got, c.want)
			}
		})
	}
}

// The place of the cursor is right also after output that is much longer than what is drawn, and
// after changes of the size.
func TestCursorLater(t *testing.T) {
	x := newTerminal(t)
	var step int
	check := func(printed, want string) {
		t.Helper()
		step++
		if got := x.answers(printed + "\x1b[6n"); got != want {
			t.Errorf("step %d: answer %q, want %q", step, got, want)
		}
	}
	check("\x1b[2J\x1b[5;1Habc", "\x1b[5;4R")
	check(strings.Repeat("a line of \x1b[1;31mcolour\x1b[m\r\n", 20_000)+"ab", "\x1b[24;3R")
	check("\x1b[3;3H\x1b[?1049h\x1b[H", "\x1b[1;1R")
	check(strings.Repeat("\x1b[2;1H\x1b[Kxyz", 100), "\x1b[2;4R")
	check("\x1b[?1049l", "\x1b[3;3R")
	check(strings.Repeat("a\rb", 500)+"cd", "\x1b[3;4R")
	must.Do(t, x.pty.Resize(10, 20))
	check("\x1b[999;999H", "\x1b[10;20R")
	check(strings.Repeat("\r\n", 5)+strings.Repeat("x", 25), "\x1b[10;6R")
}

// Nothing is typed for a query that came while the terminal was not silent, now or later.
func TestOnlyASilentTerminalAnswers(t *testing.T) {
	for name, c := range map[string]struct{ echo, canon bool }{
		"echo": {true, true}, "echo of keys": {true, false}, "a line without echo": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTerminal(t)
			x.mode(c.echo, c.canon)
			x.print(strings.Repeat("\x1b[6n\x1b[c", 1000))
			x.idle()
			if got := x.answers(""); got != "" {
				t.Errorf("%q was typed", got)
			}
		})
	}
}

// A query that a script has printed just before it turns echo off is answered, if the script can
// have printed it.
func TestTerminalThatBecomesSilent(t *testing.T) {
	for name, c := range map[string]struct {
		tree []int
		want string
	}{
		"the same processes": {[]int{2, 1}, "\x1b[1;1R"},
		"one has ended":      {[]int{1}, ""},
		"one is new":         {[]int{1, 2, 3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTerminal(t)
			x.SetPatience(polltest.Patience)
			x.print("\x1b[6n")
			if !x.pty.Sending() {
				t.Error("a program that reads now would be taken to wait for a person")
			}
			polltest.Until(t, "the processes to be listed", func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				return x.scans == 1
			})
			x.mu.Lock()
			x.tree = c.tree
			x.mu.Unlock()
			x.mode(false, false)
			x.idle()
			if x.pty.Sending() {
				t.Error("a program that reads now would not be taken to wait for a person")
			}
			if got := x.answers(""); got != c.want {
				t.Errorf("%q was typed, want %q", got, c.want)
			}
		})
	}
}

// A query that is too old when its answer is known is not answered.
func TestOldQuery(t *testing.T) {
	x := newTerminal(t)
	x.SetTooLate(0)
	x.mode(false, false)
	x.print("\x1b[6n")
	x.idle()
	if n := x.unread(); n > 0 {
		t.Errorf("%d bytes were typed", n)
	}
}

// Nothing is typed behind input that no program has read, but for earlier answers.
func TestUnreadInput(t *testing.T) {
	x := newTerminal(t)
	x.mode(false, false)
	must.Get(x.pty.Send(t.Context(), []byte("typed")))(t)
	x.print("\x1b[6n")
	x.idle()
	if n := x.unread(); n != len("typed") {
		t.Errorf("%d bytes are unread", n)
	}
	must.Get(x.pty.Send(t.Context(), []byte(well)))(t)
	if got := x.typed(); got != "typed" {
		t.Errorf("typed %q", got)
	}
	for range 3 {
		x.print("\x1b[c")
		x.idle()
	}
	if got, want := x.answers(""), strings.Repeat("\x1b[?62;22c", 3); got != want {
		t.Errorf("typed %q, want %q", got, want)
	}
}

// Of a million queries at most a hundred in a second are answered, and the terminal's queue is
// never filled with answers that no program reads.
func TestAnswersAreFew(t *testing.T) {
	x := newTerminal(t)
	x.mode(false, false)
	begin := time.Now()
	x.print(strings.Repeat("\x1b[5n", 250_000))
	x.idle()
	seconds := int(time.Since(begin)/time.Second) + 1
	most := min(seconds*queries.PerSecond*len(well), 2<<10)
	if n := x.unread(); n == 0 || n > most {
		t.Errorf("%d bytes of answers in %d s, want at most %d", n, seconds, most)
	}
}

// Each of many answers is typed once and whole, while input is sent, too.
func TestAnswersAmongInput(t *testing.T) {
	x := newTerminal(t)
	x.mode(false, false)
	for i := range 50 {
		typed := fmt.Sprintf("<%d>", i)
		must.Get(x.pty.Send(t.Context(), []byte(typed+well)))(t)
		if got := x.typed(); got != typed {
			t.Fatalf("typed %q, want %q", got, typed)
		}
		x.write(fmt.Sprintf("\x1b[%d;%dH\x1b[6n\x1b[5n", i%24+1, i+1))
		if got, want := x.typed(), fmt.Sprintf("\x1b[%d;%dR", i%24+1, i+1); got != want {
			t.Fatalf("typed %q, want %q", got, want)
		}
	}
}
