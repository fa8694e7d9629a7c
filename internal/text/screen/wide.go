package screen

import (
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// The library draws a wide character in the last column, where half of it has no place. After one
// in the last two columns it forgets that the line is full. So wide characters are pieces of their
// own here, and lines wrap around them as on a terminal.

// firstWide is the first byte of the first character, U+1100, that can be wide.
const firstWide = 0xe1

// wide returns the length of the wide character that b begins with, with all that combines with it;
// 0 if it is not wide.
func wide(b []byte) int {
	r, _ := utf8.DecodeRune(b)
	// Frames and dots are common, and narrow.
	if r < 0x1100 || r >= 0x2500 && r < 0x25a0 || r >= 0x2800 && r < 0x2900 || r == utf8.RuneError {
		return 0
	}
	c, width := ansi.FirstGraphemeCluster(b, ansi.GraphemeWidth)
	if width < 2 {
		return 0
	}
	return len(c)
}

// writePiece draws the first piece of b and returns its length.
func (s *Screen) writePiece(b []byte) (n int) {
	if b[0] >= firstWide {
		n = wide(b[:min(len(b), maxPiece)])
	}
	switch {
	case n > 0:
		s.writeWide(b[:n])
		return n
	case s.wraps:
		return s.writeWrapped(b)
	}
	n = s.pieceEnd(b)
	s.emulate(b[:n])
	return n
}

// emulate has the library draw b.
func (s *Screen) emulate(b []byte) {
	_, _ = s.current().Write(b) // the error of an emulator that was closed: none ever is
}

// writeWide draws a wide character.
func (s *Screen) writeWide(c []byte) {
	left := s.cols - s.current().CursorPosition().X
	if !s.noWrap && (left < 2 || s.wraps) {
		s.emulate([]byte("\r\n"))
		left = s.cols
	}
	s.emulate(c)
	// If the character is part of a title, the cursor has not moved.
	s.wraps = !s.noWrap && left == 2 && s.current().CursorPosition().X == s.cols-1
}

// writeWrapped is writePiece after a line that a wide character has filled.
func (s *Screen) writeWrapped(b []byte) (n int) {
	before := s.current().CursorPosition()
	switch {
	case b[0] == esc:
		if n = sequenceEnd(b); n == 0 {
			n, s.wraps = s.pieceEnd(b), false
		}
	case b[0] < ' ' || b[0] == 0x7f:
		n = 1
	default:
		s.emulate([]byte("\r\n"))
		n, s.wraps = s.pieceEnd(b), false
	}
	s.emulate(b[:n])
	s.wraps = s.wraps && s.current().CursorPosition() == before
	return n
}

// sequenceEnd returns the length of the control sequence, or of the choice of a character set, that
// b begins with; 0 if it is something else, or unfinished.
func sequenceEnd(b []byte) int {
	switch {
	case len(b) < 3:
		return 0
	case b[1] == '(' || b[1] == ')':
		return 3
	case b[1] != '[':
		return 0
	}
	for i := 2; i < min(len(b), maxPiece); i++ {
		if b[i] < 0x20 || b[i] > 0x3f {
			return i + 1
		}
	}
	return 0
}
