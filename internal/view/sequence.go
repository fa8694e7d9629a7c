package view

import (
	"bytes"
	"unicode/utf8"
)

// The package has its own scanner because the parser of charmbracelet/x/ansi takes the byte after a
// broken UTF-8 character for a part of it, even a newline, and its DecodeSequence panics on a
// sequence of more than 32 parameters.

const (
	esc = 0x1b
	can = 0x18
	sub = 0x1a
	bel = 0x07
)

// A sequence is one escape sequence.
type sequence struct {
	len     int  // in bytes
	open    bool // the bytes ended before the sequence did
	csi     bool
	private bool   // a CSI with a prefix (<=>?) or an intermediate byte
	final   byte   // 0: without meaning here (a string, or broken)
	params  [2]int // of a CSI; 0: omitted
}

// scanEscape reads the escape sequence that b begins with; b[0] is ESC.
func scanEscape(b []byte) sequence {
	if len(b) < 2 {
		return sequence{len: len(b), open: true}
	}
	switch b[1] {
	case '[':
		return scanCSI(b, 2)
	case ']', 'P', 'X', '^', '_':
		return scanString(b)
	}
	i := 1
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
		i++
	}
	switch {
	case i == len(b):
		return sequence{len: i, open: true}
	case b[i] < 0x30 || b[i] > 0x7e:
		return sequence{len: i} // broken: the byte that broke it is read on its own
	case i > 1:
		return sequence{len: i + 1} // a choice of character set and the like
	}
	return sequence{len: i + 1, final: b[i]}
}

// scanCSI reads a control sequence whose parameters begin at i.
func scanCSI(b []byte, i int) sequence {
	q := sequence{csi: true}
	for n := 0; i < len(b) && b[i] >= 0x30 && b[i] <= 0x3f; i++ {
		switch c := b[i]; {
		case c == ';':
			n++
		case c > ';':
			q.private = true
		case c != ':' && n < len(q.params):
			q.params[n] = min(q.params[n]*10+int(c-'0'), 9999)
		}
	}
	for ; i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f; i++ {
		q.private = true
	}
	switch {
	case i == len(b):
		return sequence{len: i, open: true}
	case b[i] < 0x40 || b[i] > 0x7e:
		return sequence{len: i}
	}
	q.len, q.final = i+1, b[i]
	return q
}

// scanString reads a string: OSC, DCS, APC, PM or SOS. One without a proper end hides at most the
// rest of its line: otherwise two stray bytes would hide everything after them. Only strings that
// carry images can have several lines.
func scanString(b []byte) sequence {
	multiline := b[1] == 'P' || bytes.HasPrefix(b[1:], []byte("]1337;"))
	line := -1 // the first newline
	for i := 2; i < len(b); i++ {
		switch b[i] {
		case bel:
			if b[1] == ']' {
				return sequence{len: i + 1}
			}
		case esc:
			if i+1 == len(b) {
				return sequence{len: endAt(line, len(b)), open: true}
			}
			if b[i+1] == '\\' {
				return sequence{len: i + 2}
			}
			return sequence{len: endAt(line, i)}
		case can, sub:
			return sequence{len: endAt(line, i+1)}
		case '\n':
			if !multiline {
				return sequence{len: i}
			}
			if line < 0 {
				line = i
			}
		}
	}
	return sequence{len: endAt(line, len(b)), open: true}
}

func endAt(line, end int) int {
	if line >= 0 {
		return line
	}
	return end
}

// maxHeld is the longest sequence that complete waits for, in bytes: a sequence that never ends
// must not hold output back for ever.
const maxHeld = 4 << 10

// complete returns how many bytes of b can be shown now: not all if b ends inside a character or an
// escape sequence, because the rest can still come.
func complete(b []byte) int { return completeWithin(b, maxHeld) }

// completeWithin is complete for sequences of at most that many bytes.
func completeWithin(b []byte, most int) int {
	low := max(0, len(b)-most)
	n := len(b) - partialRune(b[low:])
	// The remaining bytes can end in an open sequence again, because the end of a string begins
	// with ESC, too. Only the last one is open: of several bytes that each begin a character, or an
	// escape sequence, all others are broken.
	for n > low {
		i := lastEscape(b[low:n])
		if i < 0 || !scanAny(b[low+i:]).open {
			break
		}
		n = low + i
	}
	return n
}

// lastEscape returns where the last escape sequence of b begins, or -1.
func lastEscape(b []byte) int {
	i := -1
	if bytes.IndexByte(b, esc) >= 0 { // much faster than from the end, and most text has none
		i = bytes.LastIndexByte(b, esc)
	}
	low := max(0, i, len(b)-maxHeld)
	if bytes.IndexByte(b[low:], csi[1]) >= 0 {
		if j := bytes.LastIndex(b[low:], csi); j >= 0 {
			return low + j
		}
	}
	return i
}

// csi is the character that begins a control sequence, as ESC [ does.
var csi = []byte("\u009b")

// scanAny reads the escape sequence that b begins with, with ESC or csi.
func scanAny(b []byte) sequence {
	if b[0] == esc {
		return scanEscape(b)
	}
	return scanCSI(b, len(csi))
}

// partialRune returns how many bytes at the end of b begin a character without ending it.
func partialRune(b []byte) int {
	for i := 1; i <= len(b) && i < utf8.UTFMax; i++ {
		if c := b[len(b)-i:]; utf8.RuneStart(c[0]) {
			if utf8.FullRune(c) {
				return 0
			}
			return i
		}
	}
	return 0
}

// Begun returns the end of before that begins the first line of data, if a program draws over that
// line; else it returns nil.
func Begun(before, data []byte) []byte {
	start := bytes.LastIndexByte(before, '\n') + 1
	if start == 0 { // then the line is long, and only its last drawing counts
		start = bytes.LastIndexByte(before, '\r') + 1
	}
	line, _, _ := bytes.Cut(data, newline)
	if start == 0 || start == len(before) || !drawsOver(before[start-1:]) && !drawsOver(line) {
		return nil
	}
	return before[start:]
}

var newline = []byte{'\n'}

// drawsOver reports whether b, without a newline, moves the cursor back in its line.
func drawsOver(b []byte) bool {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\b':
			return true
		case '\r':
			if i+1 < len(b) && b[i+1] != '\r' {
				return true
			}
		case esc:
			if q := scanEscape(b[i:]); q.csi && !q.private && bytes.IndexByte([]byte("ADFGHfd`"), q.final) >= 0 {
				return true
			}
		}
	}
	return false
}

// Begin returns the first offset of b, at or after at, that is inside no character and no escape
// sequence. b should begin some hundred bytes before at, because a sequence that began before b
// can't be recognized; the rest of a character can.
func Begin(b []byte, at int) int {
	i := 0
	for i < len(b) && i < utf8.UTFMax-1 && !utf8.RuneStart(b[i]) {
		i++
	}
	for i < at && i < len(b) {
		switch c := b[i]; {
		case c == esc:
			i += scanEscape(b[i:]).len
		case c >= utf8.RuneSelf:
			_, n := utf8.DecodeRune(b[i:])
			i += n
		default:
			i++
		}
	}
	return min(i, len(b))
}
