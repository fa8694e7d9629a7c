package tty_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/terminal/waiting"
	"asyncrepl/internal/test/must"
)

// reader starts a program that prints the length and the first character of each line it reads, and
// runs the statements gone at SIGUSR1. waits returns when it reads.
func reader(t *testing.T, gone string) (p *ttytest.Program, k *tty.Keyboard, waits func()) {
	t.Helper()
	p = ttytest.Start(t, []string{"python3", "-I", "-S", "-c", `
import os, signal, termios
mode = termios.tcgetattr(0)
mode[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, mode)
def gone(*_):
    ` + gone + `
    print("gone", flush=True)
signal.signal(signal.SIGUSR1, gone)
while True:
    got = os.read(0, 10000)
    print("got %d %s" % (len(got), got[:1].decode()), flush=True)
`})
	reported := make(chan bool, 100) // OnChange must not block, and no test makes more
	w := &waiting.Watcher{Source: p.PTY, Tree: p.List, LastOutput: p.LastOutput, OnChange: func(_ waiting.Evidence, waits bool) { reported <- waits }}
	p.OnOutput(w.Kick)
	t.Cleanup(w.Start())
	waits = func() {
		t.Helper()
		for {
			select {
			case is := <-reported:
				if is {
					return
				}
			case <-time.After(ttytest.Patience):
				t.Fatal("the program does not read")
			}
		}
	}
	return p, tty.NewKeyboard(p.PTY, p.List), waits
}

// A line that the terminal would cut is refused even if it is typed in parts. Its parts up to the
// cut are typed.
func TestLineInPartsIsRefusedWhereItWouldBeCut(t *testing.T) {
	p, k, waits := reader(t, "pass")
	typed := func(text string, want error) {
		t.Helper()
		if err := k.Type(t.Context(), tty.Input{Text: text}); !errors.Is(err, want) {
			t.Fatalf("%d bytes of %.1q: %v, want %v", len(text), text, err, want)
		}
		if want == nil {
			waits()
		}
	}
	waits()
	typed(strings.Repeat("a", 2000), nil)
	typed(strings.Repeat("b", 1000), nil)
	typed(strings.Repeat("c", tty.LineMax-2999)+"\n", tty.ErrLineTooLong)
	typed(strings.Repeat("d", tty.LineMax-3000), nil)
	typed("e", tty.ErrLineTooLong)
	typed("\n", nil)
	p.WaitPrinted(t, fmt.Sprintf("got %d a", tty.LineMax+1))
	typed("f", nil)
	typed("\r"+strings.Repeat("g", tty.LineMax)+"\n", nil)
	p.WaitPrinted(t, "got 2 f")
	p.WaitPrinted(t, fmt.Sprintf("got %d g", tty.LineMax+1))
}

// Nothing is refused because of an earlier part that the program has read or thrown away.
func TestEarlierPartThatIsGoneDoesNotCount(t *testing.T) {
	for name, gone := range map[string]string{
		"thrown away": `termios.tcflush(0, termios.TCIFLUSH)`,
		"read as keys": `mode[3] ^= termios.ICANON; termios.tcsetattr(0, termios.TCSANOW, mode); os.read(0, 10000)
    mode[3] ^= termios.ICANON; termios.tcsetattr(0, termios.TCSANOW, mode)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, k, waits := reader(t, gone)
			waits()
			must.Do(t, k.Type(t.Context(), tty.Input{Text: strings.Repeat("a", 3000)}))
			waits()
			p.Signal(t, syscall.SIGUSR1)
			p.WaitPrinted(t, "gone")
			must.Do(t, k.Type(t.Context(), tty.Input{Text: strings.Repeat("b", tty.LineMax) + "\n"}))
			p.WaitPrinted(t, fmt.Sprintf("got %d b", tty.LineMax+1))
		})
	}
}

// Whether a line is half typed depends on the part of the text that the terminal took.
func TestHalfTypedLineAfterATextTakenInPart(t *testing.T) {
	t.Parallel()
	p := ttytest.Start(t, []string{"sh", "-c", `stty -echo; echo ready; exec sleep 1000`})
	p.WaitPrinted(t, "ready")
	p.PTY.SetLimit(time.Second) // on a busy machine 50 ms can pass before the first byte
	k := tty.NewKeyboard(p.PTY, p.List)
	text := strings.Repeat(strings.Repeat("x", 999)+"\n", 1000)
	err := k.Type(t.Context(), tty.Input{Text: text})
	taken := 0
	if err == nil {
		t.Fatal("the terminal took all of it")
	}
	if _, err := fmt.Sscanf(err.Error(), "typing: only %d", &taken); err != nil || taken == 0 {
		t.Fatalf("%d bytes, %v", taken, err)
	}
	if want := text[taken-1] != '\n'; k.Half() != want {
		t.Errorf("after %d bytes: half a line %t, want %t", taken, k.Half(), want)
	}
}

// A newline of a text is the Enter key. A program that reads keys and has turned off that the terminal
// makes a newline of Enter expects what the key sends.
func TestNewlineIsEnter(t *testing.T) {
	for name, c := range map[string]struct{ mode, text, keys, want string }{
		"keys, Enter is a newline":     {"-icanon", "a\nb\n", ".", "a$\nb$\n."},
		"keys, Enter is Enter":         {"-icanon -icrnl", "a\nb\n", ".", "a^Mb^M."},
		"lines that end as in a file":  {"-icanon -icrnl", "a\r\nb\r\n", ".", "a^Mb^M."},
		"a newline that is no text":    {"-icanon -icrnl", "", "\n.", "$\n."},
		"lines, Enter ends no line":    {"-icrnl", "a\nb\n", ".\n", "a$\nb$\n.$\n"},
		"lines, as terminals are made": {"", "a\nb\n", ".\n", "a$\nb$\n.$\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := ttytest.Start(t, []string{"sh", "-c", "stty -echo -onlcr " + c.mode + "; echo ready; exec cat -vE"})
			p.WaitPrinted(t, "ready")
			must.Do(t, tty.NewKeyboard(p.PTY, p.List).Type(t.Context(), tty.Input{Text: c.text, Keys: c.keys}))
			p.WaitPrinted(t, "ready\n"+c.want)
		})
	}
}

// A text that the terminal would act on, cut or show is refused, and none of it is typed.
func TestTextThatTheTerminalWouldSpoilIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		mode, text  string
		eof, secret bool
		want        error
	}{
		"long line":               {"-echo", strings.Repeat("x", tty.LineMax+1) + "\n", false, false, tty.ErrLineTooLong},
		"interrupt":               {"-echo", "a\x03", false, false, tty.ErrControl},
		"end of file to keys":     {"-icanon", "", true, false, tty.ErrRawEOF},
		"a secret that is echoed": {"echo", "1234\n", false, true, tty.ErrEcho},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := ttytest.Start(t, []string{"sh", "-c", "stty " + c.mode + "; echo ready; exec sleep 1000"})
			p.WaitPrinted(t, "ready")
			p.PTY.OnSend(func() { t.Error("something was sent") })
			if err := tty.NewKeyboard(p.PTY, p.List).Type(t.Context(), tty.Input{Text: c.text, EOF: c.eof, Secret: c.secret}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
