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
	mu    sync.Mutex
	half  bool    // a line was begun in line mode and not yet ended
	begun int     // bytes of that line that lie in the terminal if no program has run since
	since *clocks // of the job's processes, asked before the first of these bytes was sent; nil: there are none
}

// NewKeyboard returns the keyboard of pty.
func NewKeyboard(pty *PTY) *Keyboard { return &Keyboard{pty: pty} }

// Type sends text and then, if eof is set, the end of file. Nothing is added to
// the text. Text that the terminal would cut, act on or (a secret) echo is
// refused whole, before any of it is sent.
//
// A line that is sent in parts is one line. Once a program of the job has run,
// it is not known any more what became of the part that was sent before: it may
// have been taken in another mode, or thrown away. So that nothing is refused
// that the terminal would take, only the part that follows counts then.
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
		if err := checkCooked(text, k.lies()); err != nil {
			return err
		}
	} else if eof {
		return ErrRawEOF
	}
	half := k.half
	if text != "" {
		half = mode.Canon && unfinished(text) != ""
	}
	b := []byte(text)
	if eof {
		if half { // the first only ends the half-typed line
			b = append(b, mode.EOF)
		}
		b = append(b, mode.EOF)
	}
	if k.begun == 0 {
		k.since = nil
		if half {
			k.since = k.pty.standstill()
		}
	}
	n, err := k.pty.Send(ctx, b)
	k.typed(text[:min(n, len(text))], mode.Canon)
	if n > len(text) { // an end of file
		k.half, k.begun = false, 0
	}
	if err != nil {
		return fmt.Errorf("typing: only %d of %d bytes were taken, for the program does not read: send the rest when it does", n, len(b))
	}
	return nil
}

// lies is how many bytes of an unfinished line are known to lie in the terminal.
func (k *Keyboard) lies() int {
	if k.begun > 0 && k.since.moved() {
		k.begun = 0
	}
	return k.begun
}

// typed notes what text that was taken has made of the unfinished line.
func (k *Keyboard) typed(text string, canon bool) {
	if text == "" {
		return
	}
	part := unfinished(text)
	if !canon {
		part = ""
	}
	k.half = part != ""
	if len(part) < len(text) { // it ended the line, or there are none
		k.begun = 0
	}
	if k.since != nil {
		k.begun += len(part)
	}
}

// lineEnds end a line in line mode.
const lineEnds = "\n\r"

// unfinished is what follows the last line of text that is ended.
func unfinished(text string) string { return text[strings.LastIndexAny(text, lineEnds)+1:] }

// checkCooked reports what a terminal in line mode, in which begun bytes of the
// first line lie already, would not hand on as it is.
func checkCooked(text string, begun int) error {
	for text != "" {
		line, rest := text, ""
		if end := strings.IndexAny(text, lineEnds); end >= 0 {
			line, rest = text[:end], text[end+1:]
		}
		switch {
		case len(line) > LineMax:
			return ErrLineTooLong
		case begun+len(line) > LineMax:
			return fmt.Errorf("%w; %d bytes of this one are typed already", ErrLineTooLong, begun)
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return ErrControl
		}
		text, begun = rest, 0
	}
	return nil
}
