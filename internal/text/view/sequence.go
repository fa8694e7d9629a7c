package view

import (
	"bytes"
	"unicode/utf8"

	"asyncrepl/internal/text/escape"
)

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
		if i < 0 || !scanAny(b[low+i:]).Open {
			break
		}
		n = low + i
	}
	return n
}

// lastEscape returns where the last escape sequence of b begins, or -1.
func lastEscape(b []byte) int {
	i := -1
	if bytes.IndexByte(b, escape.ESC) >= 0 { // faster than from the end, and most text has none
		i = bytes.LastIndexByte(b, escape.ESC)
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
func scanAny(b []byte) escape.Sequence {
	if b[0] == escape.ESC {
		return escape.Scan(b)
	}
	return escape.ScanControl(b, len(csi))
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

// LineBytes is how many bytes before a cursor are enough to find the beginning of the line that goes
// on there, for [Begun] and [Stretch.After].
const LineBytes = 4 << 10

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
		case escape.ESC:
			if q := escape.Scan(b[i:]); q.Control && !q.Private && bytes.IndexByte([]byte("ADFGHfd`"), q.Final) >= 0 {
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
		case c == escape.ESC:
			i += escape.Scan(b[i:]).Len
		case c >= utf8.RuneSelf:
			_, n := utf8.DecodeRune(b[i:])
			i += n
		default:
			i++
		}
	}
	return min(i, len(b))
}
