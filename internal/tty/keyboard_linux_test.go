package tty

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reader starts a program that tells of each line it reads how long it is and how it begins, and at SIGUSR1 runs gone.
// waits returns when it waits.
func reader(t *testing.T, gone string) (p *program, k *Keyboard, waits func()) {
	t.Helper()
	p = start(t, []string{"python3", "-I", "-S", "-c", `
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
	told := p.watch(t)
	return p, NewKeyboard(p.pty, p.tree), func() { t.Helper(); nextWaiting(t, told) }
}

// TestLineInParts: a line that the terminal would cut is refused also where it is typed in parts, and goes on to where it
// would.
func TestLineInParts(t *testing.T) {
	p, k, waits := reader(t, "pass")
	typed := func(text string, want error) {
		t.Helper()
		if err := k.Type(t.Context(), text, false, false); !errors.Is(err, want) {
			t.Fatalf("%d bytes of %.1q: %v, want %v", len(text), text, err, want)
		}
		if want == nil {
			waits()
		}
	}
	waits()
	typed(strings.Repeat("a", 2000), nil)
	typed(strings.Repeat("b", 1000), nil)
	typed(strings.Repeat("c", lineMax-2999)+"\n", ErrLineTooLong)
	typed(strings.Repeat("d", lineMax-3000), nil)
	typed("e", ErrLineTooLong)
	typed("\n", nil)
	p.waitPrinted(t, fmt.Sprintf("got %d a", lineMax+1))
	typed("f", nil)
	typed("\r"+strings.Repeat("g", lineMax)+"\n", nil)
	p.waitPrinted(t, "got 2 f")
	p.waitPrinted(t, fmt.Sprintf("got %d g", lineMax+1))
}

// TestFirstPartGone: nothing is refused for a part that the program has taken or thrown away.
func TestFirstPartGone(t *testing.T) {
	for name, gone := range map[string]string{
		"thrown away": `termios.tcflush(0, termios.TCIFLUSH)`,
		"read as keys": `mode[3] ^= termios.ICANON; termios.tcsetattr(0, termios.TCSANOW, mode); os.read(0, 10000)
    mode[3] ^= termios.ICANON; termios.tcsetattr(0, termios.TCSANOW, mode)`,
	} {
		t.Run(name, func(t *testing.T) {
			p, k, waits := reader(t, gone)
			waits()
			if err := k.Type(t.Context(), strings.Repeat("a", 3000), false, false); err != nil {
				t.Fatal(err)
			}
			waits()
			if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			p.waitPrinted(t, "gone")
			if err := k.Type(t.Context(), strings.Repeat("b", lineMax)+"\n", false, false); err != nil {
				t.Fatal(err)
			}
			p.waitPrinted(t, fmt.Sprintf("got %d b", lineMax+1))
		})
	}
}

// TestPartTaken: of a text that the terminal takes in part only, what it took tells whether a line is half typed.
func TestPartTaken(t *testing.T) {
	p := start(t, []string{"sh", "-c", `stty -echo; echo ready; exec sleep 1000`})
	p.waitPrinted(t, "ready")
	p.pty.limit = 50 * time.Millisecond
	k := NewKeyboard(p.pty, p.tree)
	text := strings.Repeat(strings.Repeat("x", 999)+"\n", 1000)
	err := k.Type(t.Context(), text, false, false)
	taken := 0
	if err == nil {
		t.Fatal("all was taken")
	}
	if _, err := fmt.Sscanf(err.Error(), "typing: only %d", &taken); err != nil || taken == 0 {
		t.Fatalf("%d bytes, %v", taken, err)
	}
	if want := text[taken-1] != '\n'; k.half != want {
		t.Errorf("after %d bytes: half a line %t, want %t", taken, k.half, want)
	}
}
