package view

import (
	"bytes"

	"asyncrepl/internal/text/escape"
)

// escape executes an escape sequence of two bytes.
func (s *screen) escape(final byte) {
	switch final {
	case '7':
		s.save()
	case '8':
		s.restore()
	case 'D', 'E': // index, next line
		s.down()
		if final == 'E' {
			s.x = 0
		}
	case 'M':
		s.up(1)
	case 'c':
		s.drawing, s.shifted = [2]bool{}, 0
		s.fresh()
	}
}

// control executes a control sequence that moves the cursor or erases. It ignores all others.
func (s *screen) control(q escape.Sequence) {
	if q.Private {
		s.setMode(q)
		return
	}
	switch q.Final {
	case 'J':
		s.eraseScreen(q.Params[0])
	case 'K':
		s.eraseLine(q.Params[0])
	case 'X', 'P', '@':
		s.shift(q.Final, max(q.Params[0], 1))
	case 'b':
		s.repeat(max(q.Params[0], 1))
	case 's':
		s.save()
	case 'u':
		s.restore()
	default:
		s.move(q.Final, max(q.Params[0], 1), max(q.Params[1], 1))
	}
}

// repeat draws the character before the cursor n more times, as curses has lines drawn, but not beyond
// the row.
func (s *screen) repeat(n int) {
	r := s.row(s.y)
	if s.x == 0 || s.x > len(r.cells) {
		return
	}
	c := r.cells[s.x-1]
	for range min(n, maxCols-s.x) {
		s.put(c)
	}
}

// setMode executes a private control sequence, if it switches to the other screen or back.
func (s *screen) setMode(q escape.Sequence) {
	if switches(q) {
		s.full = q.Final == 'h'
		s.fresh()
	}
}

// switches reports whether q, a private control sequence, switches to the other screen or back.
func switches(q escape.Sequence) bool {
	return (q.Final == 'h' || q.Final == 'l') && (q.Params[0] == 47 || q.Params[0] == 1047 || q.Params[0] == 1049)
}

// FullScreen reports whether a program draws on all of the screen after b, see [Drawn].
func FullScreen(b []byte) bool {
	return bytes.Contains(b, []byte("\x1b[?")) && Drawn(b, 0, false).Full
}

// move executes a control sequence that moves the cursor by n, or to n. Only some have a second
// parameter.
func (s *screen) move(final byte, n, second int) {
	switch final {
	case 'A', 'F':
		s.up(n)
	case 'B', 'E', 'e':
		s.y = min(s.y+n, s.end-1)
	case 'C', 'a':
		s.x = min(s.x+n, maxCols-1)
	case 'D':
		s.x = max(s.x-n, 0)
	case 'G', '`':
		s.x = min(n, maxCols) - 1
	case 'H', 'f':
		s.goTo(n, second)
	case 'd':
		s.goTo(n, s.x+1)
	}
	if final == 'E' || final == 'F' {
		s.x = 0
	}
}

func (s *screen) up(n int) { s.y = max(s.y-n, s.base) }

func (s *screen) save() { s.saved, s.sy, s.sx = true, s.y, s.x }

func (s *screen) restore() {
	if s.saved {
		s.y, s.x = min(max(s.sy, s.base), s.end-1), s.sx
	}
	s.saved, s.statusLine = false, false
}

// fresh starts a new piece of text: the text so far remains, without blank rows at its end, and the
// program's first row is the next one.
func (s *screen) fresh() {
	at := s.row(s.end - 1).at
	if y := s.firstBlank(); y < s.end {
		s.row(y).clear()
		s.row(y).at = at
		s.y, s.end = y, y+1
	} else {
		s.y = s.end - 1
		s.down()
	}
	s.row(s.y).placed = s.full
	s.x, s.home, s.statusLine = 0, s.y, false
}

// firstBlank returns the first of the blank rows at the end, or the end if there are none.
func (s *screen) firstBlank() int {
	y := s.end
	for y > s.base && s.blank(y-1) {
		y--
	}
	return y
}

// scrollRows is how many blank rows in a row show that a program has scrolled its screen away, as vite
// does before it clears it: it prints a newline for each row.
const scrollRows = 20

// scrolledAway reports whether the program has scrolled its screen away.
func (s *screen) scrolledAway() bool {
	first := s.firstBlank()
	return s.y == s.end-1 && s.end-first >= scrollRows && !s.row(first).placed && !s.row(s.y).placed
}

// goTo moves the cursor to a place on the screen, counted from 1. The top of the screen is known
// only after a program has cleared it or moved to it; a program that moves elsewhere with the
// cursor saved draws a status line, as apt does.
func (s *screen) goTo(row, col int) {
	if s.home < 0 {
		if s.saved {
			s.statusLine = true
			return
		}
		s.fresh()
		s.row(s.y).placed = true
	} else if row == 1 && s.scrolledAway() {
		s.fresh()
		s.row(s.y).placed = true
	}
	want := max(s.home, s.base) + min(row, maxRows/2) - 1
	s.y = min(want, s.end-1)
	for s.y < want {
		s.down()
		s.row(s.y).placed = true
	}
	s.y = max(s.y, s.base)
	s.row(s.y).placed = true
	s.x = min(col, maxCols) - 1
}

// eraseScreen erases below the cursor. Full screens are kept: clearing one removes no text.
func (s *screen) eraseScreen(part int) {
	switch part {
	case 0:
		if s.statusLine {
			return
		}
		s.eraseLine(0)
		for y := s.y + 1; y < s.end; y++ {
			s.row(y).clear()
		}
		s.end = s.y + 1
	case 2, 3:
		s.fresh()
	}
}

func (s *screen) eraseLine(part int) {
	if s.statusLine {
		return
	}
	r := s.row(s.y)
	switch part {
	case 0:
		r.cells = r.cells[:min(s.x, len(r.cells))]
		r.wraps = false
	case 1:
		clear(r.cells[:min(s.x+1, len(r.cells))])
	case 2:
		r.cells = r.cells[:0]
		r.wraps = false
	}
	r.edited = true
}

// shift erases (X), removes (P) or makes room for (@) n characters at the cursor.
func (s *screen) shift(final byte, n int) {
	r := s.row(s.y)
	if s.statusLine || s.x >= len(r.cells) {
		return
	}
	rest := r.cells[s.x:]
	n = min(n, len(rest))
	switch final {
	case 'X':
		clear(rest[:n])
	case 'P':
		r.cells = r.cells[:s.x+copy(rest, rest[n:])]
	case '@': // characters pushed beyond the row's end are lost, as on a terminal of that width
		grown := min(n, maxCols-len(r.cells))
		for range grown {
			r.cells = append(r.cells, 0)
		}
		rest = r.cells[s.x:]
		copy(rest[n:], rest)
		clear(rest[:n])
	}
	r.edited = true
}
