package escape

import "bytes"

// The control characters that begin or end sequences.
const (
	ESC = 0x1b
	can = 0x18
	sub = 0x1a
	bel = 0x07
)

// A Sequence is one escape sequence.
type Sequence struct {
	Len     int  // its length in bytes
	Open    bool // the bytes ended before the sequence did
	Broken  bool // it has no proper end: a byte that can't be part of it came first
	Control bool // a control sequence: CSI, parameters and a final byte
	Private bool // a control sequence with a prefix (<=>?) or an intermediate byte

	// Final is the final byte of a control sequence or of a sequence of two bytes. It is 0 if the
	// sequence is open or broken, is a string, or chooses a character set or the like.
	Final  byte
	Params [2]int // the first parameters of a control sequence, 9999 at most; 0: omitted
}

// Scan reads the escape sequence that b begins with. b[0] is ESC.
func Scan(b []byte) Sequence {
	if len(b) < 2 {
		return Sequence{Len: len(b), Open: true}
	}
	switch b[1] {
	case '[':
		return ScanControl(b, 2)
	case ']', 'P', 'X', '^', '_':
		return scanString(b)
	}
	i := 1
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
		i++
	}
	switch {
	case i == len(b):
		return Sequence{Len: i, Open: true}
	case b[i] < 0x30 || b[i] > 0x7e:
		return Sequence{Len: i, Broken: true}
	case i > 1:
		return Sequence{Len: i + 1} // a choice of character set and the like
	}
	return Sequence{Len: i + 1, Final: b[i]}
}

// ScanControl reads the control sequence that b begins with and whose parameters begin at b[i].
func ScanControl(b []byte, i int) Sequence {
	q := Sequence{Control: true}
	for n := 0; i < len(b) && b[i] >= 0x30 && b[i] <= 0x3f; i++ {
		switch c := b[i]; {
		case c == ';':
			n++
		case c > ';':
			q.Private = true
		case c != ':' && n < len(q.Params):
			q.Params[n] = min(q.Params[n]*10+int(c-'0'), 9999)
		}
	}
	for ; i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f; i++ {
		q.Private = true
	}
	switch {
	case i == len(b):
		return Sequence{Len: i, Open: true}
	case b[i] < 0x40 || b[i] > 0x7e:
		return Sequence{Len: i, Broken: true}
	}
	q.Len, q.Final = i+1, b[i]
	return q
}

// scanString reads a string: OSC, DCS, APC, PM or SOS. One without a proper end hides at most the
// rest of its line: otherwise two stray bytes would hide everything after them. Only strings that
// carry images can have several lines.
func scanString(b []byte) Sequence {
	multiline := b[1] == 'P' || bytes.HasPrefix(b[1:], []byte("]1337;"))
	line := -1 // the first newline
	for i := 2; i < len(b); i++ {
		switch b[i] {
		case bel:
			if b[1] == ']' {
				return Sequence{Len: i + 1}
			}
		case ESC:
			if i+1 == len(b) {
				return Sequence{Len: endAt(line, len(b)), Open: true}
			}
			if b[i+1] == '\\' {
				return Sequence{Len: i + 2}
			}
			return Sequence{Len: endAt(line, i), Broken: true}
		case can, sub:
			return Sequence{Len: endAt(line, i+1), Broken: true}
		case '\n':
			if !multiline {
				return Sequence{Len: i, Broken: true}
			}
			if line < 0 {
				line = i
			}
		}
	}
	return Sequence{Len: endAt(line, len(b)), Open: true}
}

func endAt(line, end int) int {
	if line >= 0 {
		return line
	}
	return end
}
