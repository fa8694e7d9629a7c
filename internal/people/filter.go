//go:build unix

package people

import (
	"bytes"
	"fmt"
	"strings"

	"asyncrepl/internal/text/escape"
)

// A filter passes on the output of a job's terminal to a person's, without what asks the terminal
// something, and follows the modes that it sets. A piece can be cut anywhere: the begin of a
// sequence is held until the rest is there.
type filter struct {
	held  []byte
	modes escape.Modes
	noted string // what undoes the modes, as it was noted last
}

// pass returns what of b to print, after what was held.
func (f *filter) pass(b []byte) (out []byte) {
	f.modes.Write(b)
	b = append(f.held, b...)
	f.held = nil
	for {
		k := bytes.IndexByte(b, escape.ESC)
		if k < 0 {
			return append(out, b...)
		}
		out, b = append(out, b[:k]...), b[k:]
		q := escape.Scan(b)
		if q.Open && len(b) <= escape.Longest {
			f.held = bytes.Clone(b)
			return out
		}
		if !asks(b[:q.Len], q) {
			out = append(out, b[:q.Len]...)
		}
		b = b[q.Len:]
	}
}

// asks reports whether a terminal answers a sequence. Sequences that change the window (CSI t) can
// do so, too (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html).
func asks(b []byte, q escape.Sequence) bool {
	switch {
	case q.Control:
		switch q.Final {
		case 'c', 't':
			return true
		case 'n': // CSI > n sets how keys are sent
			return b[2] != '>'
		case 'p':
			return bytes.HasSuffix(b, []byte("$p"))
		case 'q':
			return b[2] == '>'
		case 'u':
			return b[2] == '?'
		case 'x', 'y': // DECREQTPARM; checksums of the screen
			return true
		}
		return false
	case len(b) < 2:
		return false
	case b[1] == ']': // a colour or the clipboard, if "?" stands for it
		text := strings.TrimRight(string(b[2:]), "\a\x1b\\")
		return strings.HasSuffix(text, ";?")
	case b[1] == 'P':
		return bytes.HasPrefix(b[2:], []byte("$q")) || bytes.HasPrefix(b[2:], []byte("+q"))
	}
	return b[1] == 'Z' // DECID
}

// personal are the modes that programs set, and that would disturb whoever types at the terminal
// afterwards, with their setting in a new terminal.
var personal = []struct {
	number int
	fresh  escape.Setting
}{
	{1, escape.Reset}, {25, escape.Set}, {1000, escape.Reset}, {1002, escape.Reset}, {1003, escape.Reset}, {1004, escape.Reset},
	{1006, escape.Reset}, {2004, escape.Reset}, {1049, escape.Reset},
}

// set returns what sets the modes that differ from those of a new terminal.
func (f *filter) set() string { return f.switches(false) }

// undo returns what sets the modes as in a new terminal, and the colours and the keypad.
func (f *filter) undo() string { return "\x1b[m\x1b>" + f.switches(true) }

func (f *filter) switches(back bool) string {
	var b strings.Builder
	for _, m := range personal {
		now := f.modes.Setting(escape.Mode{Private: true, Number: m.number})
		if now == m.fresh {
			continue
		}
		if back {
			now = m.fresh
		}
		final := 'l'
		if now == escape.Set {
			final = 'h'
		}
		fmt.Fprintf(&b, "\x1b[?%d%c", m.number, final)
	}
	return b.String()
}
