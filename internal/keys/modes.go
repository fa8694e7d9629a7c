package keys

import "bytes"

// Modes are the modes of a terminal that change what its keyboard sends. A program sets them by its
// output. The zero Modes are those of a new terminal.
type Modes struct {
	ApplicationCursor bool // DECCKM: the cursor keys have their other form
	BracketedPaste    bool // 2004: pasted text comes in brackets
}

// longest bounds a sequence that a Follower waits for the end of.
const longest = 256

// A Follower follows the modes through the output of a terminal's programs. The zero Follower is at
// its beginning.
type Follower struct {
	Modes
	held []byte // the beginning of a sequence that the output so far has cut
}

// Write follows b, the next piece of the output. Pieces can be cut anywhere.
func (f *Follower) Write(b []byte) {
	if len(f.held) > 0 {
		b = append(f.held, b...)
		f.held = nil
	}
	for {
		i := bytes.IndexByte(b, esc[0])
		if i < 0 {
			return
		}
		b = b[i:]
		n, whole := f.sequence(b)
		if !whole {
			if len(b) < longest {
				f.held = bytes.Clone(b)
			}
			return
		}
		b = b[n:]
	}
}

// sequence follows the escape sequence that b begins with and returns its length. It reports false if
// b ends before the sequence does. Of a sequence that sets no mode it may return a part: what follows
// ESC again is another sequence.
func (f *Follower) sequence(b []byte) (n int, whole bool) {
	if len(b) < 2 {
		return 0, false
	}
	if b[1] == 'c' { // RIS
		f.Modes = Modes{}
		return 2, true
	}
	if b[1] != '[' {
		return 1, true
	}
	if len(b) < 3 {
		return 0, false
	}
	switch b[2] {
	case '?':
		return f.private(b)
	case '!': // DECSTR
		if len(b) < 4 {
			return 0, false
		}
		if b[3] == 'p' {
			f.ApplicationCursor = false
		}
	}
	return 2, true
}

// private follows a sequence that begins with CSI and a question mark: DECSET and DECRST have numbers
// between semicolons, and end in h and l.
func (f *Follower) private(b []byte) (n int, whole bool) {
	const begin = len(csi) + 1
	n = begin + bytes.IndexFunc(b[begin:], func(r rune) bool { return (r < '0' || r > '9') && r != ';' })
	if n < begin {
		return 0, false
	}
	if b[n] == 'h' || b[n] == 'l' {
		for number := range bytes.SplitSeq(b[begin:n], []byte(";")) {
			f.set(string(number), b[n] == 'h')
		}
	}
	return n, true
}

// set sets one mode by its number.
func (m *Modes) set(number string, on bool) {
	switch number {
	case "1":
		m.ApplicationCursor = on
	case "2004":
		m.BracketedPaste = on
	}
}
