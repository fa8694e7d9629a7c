package tty

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// LineMax is the longest line, in bytes and without its newline, that a
// terminal in line mode hands to a program whole: the kernel drops the rest and
// reports it written.
const LineMax = 4095

// Errors of [Keyboard.Type]. Each names its remedy.
var (
	ErrLineTooLong = fmt.Errorf("a line of more than %d bytes is cut by a terminal in line mode: send it in parts to a command started with tty=false, or put it in a file", LineMax)
	ErrControl     = errors.New("control characters are acted on by a terminal in line mode, not read by the program: use eof=true for end of file, cancel_job to interrupt, or tty=false")
	ErrRawEOF      = errors.New("the program reads single keys: its terminal has no end of file now; send the key it quits by")
	ErrEcho        = errors.New("the terminal would echo a secret into the output: wait until the job asks with Waiting: secret")
)

// A Keyboard types into a terminal by the rules of the mode that the terminal
// is in at that moment. One keyboard belongs to one terminal.
type Keyboard struct {
	pty *PTY

	// Guarded by mu, which also keeps two senders' texts apart.
	mu   sync.Mutex
	half bool // a line was begun in line mode and not yet ended
}

// NewKeyboard returns the keyboard of pty.
func NewKeyboard(pty *PTY) *Keyboard { return &Keyboard{pty: pty} }

// Type sends text and then, if eof is set, the end of file. Nothing is added to
// the text. Text that the terminal would cut, act on or (a secret) echo is
// refused whole, before any of it is sent.
func (k *Keyboard) Type(ctx context.Context, text string, eof, secret bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	mode, err := k.pty.Mode()
	if err != nil {
		return fmt.Errorf("reading the terminal's mode: %v", err)
	}
	if secret && mode.Echo {
		return ErrEcho
	}
	if mode.Canon {
		if err := checkCooked(text); err != nil {
			return err
		}
	} else if eof {
		return ErrRawEOF
	}
	half := k.half
	if text != "" {
		half = mode.Canon && !strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, "\r")
	}
	b := []byte(text)
	if eof {
		if half { // the first only ends the half-typed line
			b = append(b, mode.EOF)
		}
		b, half = append(b, mode.EOF), false
	}
	n, err := k.pty.Send(ctx, b)
	if err != nil {
		return fmt.Errorf("typing: only %d of %d bytes were taken, for the program does not read: send the rest when it does", n, len(b))
	}
	k.half = half
	return nil
}

// checkCooked reports what a terminal in line mode would not hand on as it is.
func checkCooked(text string) error {
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if len(line) > LineMax {
			return ErrLineTooLong
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return ErrControl
		}
	}
	return nil
}
