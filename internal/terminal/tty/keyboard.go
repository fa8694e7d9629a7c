//go:build unix

package tty

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"asyncrepl/internal/kernel/procfs"
)

// lineMax is the longest line, in bytes and without its newline, that a terminal in line mode
// passes on to a program. The kernel drops the rest and reports it written: see "Canonical and
// noncanonical mode" in https://man7.org/linux/man-pages/man3/termios.3.html.
const lineMax = 4095

// Errors of [Keyboard.Type] that mean that nothing was typed.
var (
	ErrLineTooLong = fmt.Errorf("a line of more than %d bytes is cut by a terminal in line mode", lineMax)
	ErrControl     = errors.New("control characters are acted on by a terminal in line mode, not read by the program")
	ErrEcho        = errors.New("the terminal would echo a secret into the output")
	ErrRawEOF      = errors.New("the program reads single keys, so its terminal has no end of file")
)

// A Keyboard types into a terminal by the rules of the mode that the terminal is in at that moment.
// Each terminal has one keyboard.
type Keyboard struct {
	// OnType, if set, is called before anything is typed: with the name of each signal that the
	// terminal makes of a key, such as SIGINT, and with "" if something else follows the last one. by
	// is the By of the Input.
	OnType func(signal, by string)

	pty  *PTY
	tree func() ([]int, error)

	// Guarded by mu, which also keeps two senders' texts apart.
	mu    sync.Mutex
	half  bool // a line was begun in line mode and not yet ended
	begun int  // bytes of that line that are still in the terminal, unless a program has run since

	// since holds the clocks of the tree. They were read before the first of the bytes that begun
	// counts was sent, and show whether a program can have read these bytes. If since is nil, begun
	// stays 0.
	since *procfs.Clocks
}

// NewKeyboard returns the keyboard of pty. tree lists the processes that can read the terminal.
func NewKeyboard(pty *PTY, tree func() ([]int, error)) *Keyboard {
	return &Keyboard{pty: pty, tree: tree}
}

// An Input is what one call of [Keyboard.Type] types, in the order of its fields.
type Input struct {
	Text   string // a newline is Enter; nothing is added to it, and the terminal must not act on it
	Keys   string // the bytes that keys send; the terminal acts on some of them
	EOF    bool   // the end of file
	Secret bool   // the terminal must not echo it
	Raw    bool   // the terminal may act on Text: a person who types Ctrl-C means it
	By     string // OnType gets it: the name of the one who types
}

// Type types in. If the terminal would cut it, act on its text or echo a secret, Type types nothing.
//
// A line that is sent in parts is one line. Once a program has run, it may have read the earlier
// parts in another mode, or thrown them away. They no longer count then, so that no text is refused
// that the terminal would take.
func (k *Keyboard) Type(ctx context.Context, in Input) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	mode, err := k.pty.Mode()
	if err != nil {
		return err
	}
	if err := k.check(mode, in); err != nil {
		return err
	}
	text := mode.lines(in.Text) + in.Keys
	half := k.half
	if text != "" {
		half = mode.Canon && unfinished(text) != ""
	}
	b := []byte(text)
	if in.EOF {
		if half { // one more, because the first only ends the half-typed line
			b = append(b, mode.eof)
		}
		b = append(b, mode.eof)
	}
	if k.begun == 0 {
		k.since = nil
		if half {
			k.since = k.snapshotCPU()
		}
	}
	k.announce(mode, b, in.By)
	n, err := k.pty.Send(ctx, b)
	k.typed(text[:min(n, len(text))], mode.Canon)
	if n > len(text) { // an end of file
		k.half, k.begun = false, 0
	}
	if err != nil {
		return fmt.Errorf("typing: only %d of %d bytes were taken, because the program does not read: send the rest when it does", n, len(b))
	}
	return nil
}

// announce calls OnType for b, which is about to be typed.
func (k *Keyboard) announce(mode Mode, b []byte, by string) {
	if k.OnType == nil {
		return
	}
	last := ""
	for _, key := range b {
		if last = mode.Signal(key); last != "" {
			k.OnType(last, by)
		}
	}
	if last == "" {
		k.OnType("", by)
	}
}

// Check returns the error that Type would return now without typing anything.
func (k *Keyboard) Check(in Input) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	mode, err := k.pty.Mode()
	if err != nil {
		return err
	}
	return k.check(mode, in)
}

// check returns an error if the terminal, in this mode, would not pass the input on.
func (k *Keyboard) check(mode Mode, in Input) error {
	switch {
	case in.Secret && mode.Echo:
		return ErrEcho
	case mode.Canon && !in.Raw && strings.ContainsFunc(in.Text, actedOn):
		return ErrControl
	case mode.Canon:
		return checkLines(in.Text+in.Keys, k.pendingBytes())
	case in.EOF:
		return ErrRawEOF
	}
	return nil
}

// actedOn reports whether a terminal in line mode may act on a character instead of passing it on.
func actedOn(r rune) bool { return r < ' ' && !strings.ContainsRune(lineEnds+"\t", r) || r == 0x7f }

// pendingBytes returns how many bytes of an unfinished line are known to be still in the terminal.
func (k *Keyboard) pendingBytes() int {
	if k.begun > 0 && k.since.Moved() {
		k.begun = 0
	}
	return k.begun
}

// snapshotCPU returns clocks that show later whether a process of the tree has run since. It
// returns nil if a process has no clock.
func (k *Keyboard) snapshotCPU() *procfs.Clocks {
	c := new(procfs.Clocks)
	if _, err := c.Follow(k.tree); err != nil || !c.Complete() {
		return nil
	}
	return c
}

// typed updates the unfinished line after the terminal has taken text.
func (k *Keyboard) typed(text string, canon bool) {
	if text == "" {
		return
	}
	part := unfinished(text)
	if !canon {
		part = ""
	}
	k.half = part != ""
	if len(part) < len(text) { // the text ended the line, or the mode has no lines
		k.begun = 0
	}
	if k.since != nil {
		k.begun += len(part)
	}
}

// lineEnds end a line in line mode. lineKeys do too, or drop the line: those that a terminal has for
// an interrupt, an end of file, the erasing of the line, a stop and a quit.
const (
	lineEnds = "\n\r"
	lineKeys = lineEnds + "\x03\x04\x15\x1a\x1c"
)

// unfinished returns the part of text after its last complete line.
func unfinished(text string) string { return text[strings.LastIndexAny(text, lineKeys)+1:] }

// checkLines returns an error if a terminal in line mode, which has begun bytes of the first line
// already, would cut a line of text.
func checkLines(text string, begun int) error {
	for text != "" {
		line, rest := text, ""
		if end := strings.IndexAny(text, lineKeys); end >= 0 {
			line, rest = text[:end], text[end+1:]
		}
		switch {
		case len(line) > lineMax:
			return ErrLineTooLong
		case begun+len(line) > lineMax:
			return fmt.Errorf("%w, and %d bytes of this one are typed already", ErrLineTooLong, begun)
		}
		text, begun = rest, 0
	}
	return nil
}
