package view

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"asyncrepl/internal/text/escape"
)

const (
	// maxRows is how many rows can still be changed. The server's terminals have 40 rows, a
	// person's seldom 100.
	maxRows = 128
	// maxCols is where a row continues in the next one, which bounds the cost of erasing it. A line
	// that was wrapped here is one line again when it is read.
	maxCols = 1024
)

// A row is one line of a terminal, or a part of one.
type row struct {
	cells  []rune // 0 is a cell that nothing was written to
	wraps  bool   // the next row is the same line
	edited bool   // drawn over or partly erased: blanks at the end mean nothing
	placed bool   // part of a full screen: likewise, and it can be there only to fill the screen
	at     int64  // the cursor of its first byte, if a Folder draws it
}

// A screen has as much of a terminal as folding progress takes: rows that can be drawn over, as
// wide and as high as they need to be. Rows are numbered from the first line of the text. Every
// character takes one column: the kernel erases typed characters so (eraser in
// https://github.com/torvalds/linux/blob/master/drivers/tty/n_tty.c), and a program that draws over
// its own text draws the same widths again.
type screen struct {
	rows      [maxRows]row // a ring: row y is rows[y%maxRows]
	base, end int          // rows that can be changed; those before base are in out
	y, x      int          // the cursor
	home      int          // the row that a program uses as the top; -1: unknown
	full      bool         // the program has switched to the other screen
	filling   rune         // the result of the function filling for the last row that was settled
	saved     bool
	sy, sx    int
	drawing   [2]bool // whether G0 and G1, the character sets of the terminal, are the line drawing set
	shifted   int     // the one in use: 0, or 1 after SO
	// statusLine is set while the cursor is saved and elsewhere: the program draws a status line,
	// which is not shown.
	statusLine bool
	out        lines

	folder *Folder // the Folder of the screen, which must know where rows begin; nil: none
	offset int     // the offset of the next byte to draw
}

func (s *screen) reset(l lines) {
	s.base, s.end, s.y, s.x = 0, 1, 0, 0
	s.home, s.saved, s.sy, s.sx, s.statusLine = -1, false, 0, 0, false
	s.full, s.filling = false, 0
	s.drawing, s.shifted = [2]bool{}, 0
	s.rows[0].clear()
	s.out = l
}

func (r *row) clear() { *r = row{cells: r.cells[:0]} }

func (s *screen) row(y int) *row { return &s.rows[y%maxRows] }

// write draws b, or copies plain lines that nothing after them can change. It stops when out is full.
func (s *screen) write(b []byte) {
	for i := 0; i < len(b) && !s.out.full(); {
		from, to := plainRegion(b, i, len(b))
		if i = s.draw(b, i, from); i < to {
			i = s.draw(b, s.copyPlain(b, i, to), to)
		}
	}
}

// copyPlain copies the plain lines of b[i:to] that the bytes after to can't change, and returns where
// the others begin.
func (s *screen) copyPlain(b []byte, i, to int) int {
	first, cut := s.settledLines(b, i, to)
	if first == cut {
		return i
	}
	i = s.draw(b, i, first)
	if !s.onNewRow() {
		return i
	}
	s.settleAbove()
	s.out.copyLines(b[first:cut])
	return cut
}

// settledLines returns the part of b[i:to], which is plain, that nothing after to can change and that
// begins and ends with a line: all but the first line and as many as the screen has rows.
func (s *screen) settledLines(b []byte, i, to int) (first, cut int) {
	n := bytes.IndexByte(b[i:to], '\n')
	if n < 0 || s.full || s.drawing[s.shifted] {
		return i, i
	}
	first, cut = i+n+1, to
	for range maxRows + 1 {
		if n = bytes.LastIndexByte(b[first:cut], '\n'); n < 0 {
			return i, i
		}
		cut = first + n
	}
	return first, cut + 1
}

// onNewRow reports whether the cursor is in the last row, and nothing was drawn there.
func (s *screen) onNewRow() bool {
	r := s.row(s.y)
	return s.y == s.end-1 && len(r.cells) == 0 && !r.placed
}

// settleAbove passes all rows above the cursor to out, because so many follow that nothing can change
// them any more.
func (s *screen) settleAbove() {
	for y := s.base; y < s.y; y++ {
		s.settle(y, true)
	}
	s.base, s.filling = s.y, 0
}

// draw draws what begins in b[i:end], a sequence completely, and returns where it ends. It stops
// when out is full.
func (s *screen) draw(b []byte, i, end int) int {
	for i < end && !s.out.full() {
		c := b[i]
		s.offset = i
		switch {
		case c >= 0x20 && c < 0x7f:
			j := i + 1
			for j < len(b) && b[j] >= 0x20 && b[j] < 0x7f {
				j++
			}
			s.print(b[i:j])
			i = j
		case c >= utf8.RuneSelf:
			i += s.character(b[i:])
		case c == escape.ESC:
			q := escape.Scan(b[i:])
			switch {
			case q.Control:
				s.control(q)
			case q.Len == 3 && (b[i+1] == '(' || b[i+1] == ')') && !q.Broken && !q.Open:
				s.drawing[b[i+1]-'('] = b[i+2] == '0'
			default:
				s.escape(q.Final)
			}
			i += q.Len
		default:
			if i++; s.folder != nil && c == '\r' && i < len(b) && b[i] != '\n' {
				s.folder.redraw(s.row(s.y), i)
			}
			s.c0(c)
		}
	}
	return i
}

// character draws the character beyond ASCII that b begins with, and returns its length. It can be
// the beginning of a control sequence.
func (s *screen) character(b []byte) int {
	r, n := utf8.DecodeRune(b)
	if r == 0x9b { // CSI in one character
		q := escape.ScanControl(b, n)
		s.control(q)
		return q.Len
	}
	if r > 0x9f {
		s.put(r)
	}
	return n
}

func (s *screen) c0(c byte) {
	switch c {
	case '\n':
		s.statusLine = false
		s.offset++ // the new row begins after it
		s.down()
		s.x = 0
	case '\r':
		s.x = 0
	case '\b':
		s.x = max(0, s.x-1)
	case '\t':
		s.put('\t')
	case shiftOut, shiftIn:
		s.shifted = int(shiftIn - c)
	}
}

// The control characters that select G1 and G0.
const (
	shiftOut = 0x0e
	shiftIn  = 0x0f
)

// lineDrawing are the characters of the line drawing set in place of the ASCII characters from _ on
// (https://vt100.net/docs/vt220-rm/table2-4.html).
var lineDrawing = []rune(" ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")

// print draws printable ASCII.
func (s *screen) print(b []byte) {
	for len(b) > 0 && !s.statusLine {
		r := s.row(s.y)
		if c := b[0]; s.drawing[s.shifted] && c >= '_' {
			s.put(lineDrawing[c-'_'])
			b = b[1:]
			s.offset++
			continue
		}
		if s.drawing[s.shifted] || s.x != len(r.cells) || s.x == maxCols {
			s.put(rune(b[0]))
			b = b[1:]
			s.offset++
			continue
		}
		n := min(len(b), maxCols-s.x)
		cells := slices.Grow(r.cells, n) // a local: writes to r.cells would cost a write barrier
		for _, c := range b[:n] {
			cells = append(cells, rune(c))
		}
		r.cells = cells
		s.x += n
		s.offset += n
		b = b[n:]
	}
}

// put draws one character.
func (s *screen) put(c rune) {
	if s.statusLine {
		return
	}
	r := s.row(s.y)
	if s.x == maxCols {
		r.wraps = true
		s.down()
		s.x = 0
		r = s.row(s.y)
	}
	if s.x < len(r.cells) {
		r.cells[s.x] = c
		r.edited = true
	} else {
		for len(r.cells) < s.x {
			r.cells = append(r.cells, 0)
		}
		r.cells = append(r.cells, c)
	}
	s.x++
}

// down moves to the next row, and adds a row if the cursor is in the last one.
func (s *screen) down() {
	s.y++
	if s.y < s.end {
		return
	}
	if s.end-s.base == maxRows {
		s.settle(s.base, true)
		s.base++
	}
	s.row(s.end).clear()
	s.row(s.end).placed = s.full
	if s.folder != nil {
		s.row(s.end).at = s.folder.cursor(s.offset)
	}
	s.end++
}

// settle passes row y to out. Nothing can change it any more. Of consecutive rows that only fill
// a screen, blank or with a tilde as editors do, it passes the first.
func (s *screen) settle(y int, newline bool) {
	r := s.row(y)
	cells := r.cells
	if (r.edited || r.placed) && !r.wraps {
		least := 0
		if y == s.y {
			least = s.x // a prompt may end with blanks before the cursor
		}
		for len(cells) > least && (cells[len(cells)-1] == 0 || cells[len(cells)-1] == ' ') {
			cells = cells[:len(cells)-1]
		}
	}
	last := s.filling
	if s.filling = filling(r, cells); s.filling != 0 && s.filling == last {
		return
	}
	if s.folder != nil {
		s.folder.beginRow(r.at)
	}
	s.out.add(cells)
	if newline && !r.wraps {
		s.out.newline()
		if s.folder != nil {
			s.folder.endLine()
		}
	}
}

// filling returns ' ' for a blank row of a full screen, '~' for one with only a tilde, and 0 for
// any other.
func filling(r *row, cells []rune) rune {
	switch {
	case !r.placed || r.wraps:
		return 0
	case len(cells) == 0:
		return ' '
	case len(cells) == 1 && cells[0] == '~':
		return '~'
	}
	return 0
}

// finish settles the remaining rows, except empty ones below the cursor.
func (s *screen) finish() {
	last := s.end - 1
	for last > s.y && s.blank(last) {
		last--
	}
	for y := s.base; y <= last && !s.out.full(); y++ {
		s.settle(y, y < last)
	}
	s.out.flush()
}

func (s *screen) blank(y int) bool {
	for _, c := range s.row(y).cells {
		if c != 0 && c != ' ' {
			return false
		}
	}
	return true
}

// cursorLine returns the line that the cursor is in.
func (s *screen) cursorLine() []rune {
	first, last := s.y, s.y
	for first > s.base && s.row(first-1).wraps {
		first--
	}
	for last < s.end-1 && s.row(last).wraps {
		last++
	}
	s.out.line, s.filling = s.out.line[:0], 0
	for y := first; y <= last; y++ {
		s.settle(y, false)
	}
	return s.out.line
}
