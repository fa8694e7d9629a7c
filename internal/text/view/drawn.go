package view

import (
	"bytes"
	"cmp"
	"slices"

	"asyncrepl/internal/text/escape"
)

// A Drawing is the part of some output that decides what the terminal shows in the end.
type Drawing struct {
	Parts [][]byte // drawn on an empty screen in order, they show what the terminal shows
	Under [][]byte // the same of the main screen, if a program draws on the alternate one
	Whole bool     // whatever was written before has no part in the screen
	Full  bool     // a program draws on all of the screen, and has not ended that
	Start int      // the offset of that program's drawing, if Full is set
}

// Drawn returns the part of b that decides what a terminal of some rows shows: what came after the
// last reset, clear or switch of screens, or, if lines only scroll, the last lines. begins reports
// whether b is the first output of the terminal.
//
// A program draws on all of the screen if it has switched to the alternate screen, or if it has set
// the keys to application mode, as programs do that read arrows, and has moved to a row since.
func Drawn(b []byte, rows int, begins bool) Drawing {
	d := drawer{b: b, rows: rows, main: layer{whole: begins}}
	d.onto = &d.main
	printed := 0 // up to where text has been seen
	for printed < len(b) {
		i := bytes.IndexByte(b[printed:], escape.ESC)
		if i < 0 {
			break
		}
		d.text(printed, printed+i)
		i += printed
		q := escape.Scan(b[i:])
		d.sequence(i, i+q.Len, q)
		printed = i + q.Len
	}
	d.text(printed, len(b))
	return d.drawing()
}

// A drawer reads output for Drawn.
type drawer struct {
	b         []byte
	rows      int
	main, alt layer
	onto      *layer // the one that the program draws on
	switched  int    // the offset of the switch to the alternate screen
	appKeys   int    // the offset, plus one, of the switch of the keys to application mode; 0: none
	placed    bool   // the program has moved to a row since then
	modes     [modeKinds][2]int
}

// A layer is what a drawer knows of one of the two screens.
type layer struct {
	parts   [][2]int // the parts before the current one
	start   int      // the offset of the current part
	whole   bool
	home    int    // the offset of the last move to a place without text since, plus one; 0: none
	top     bool   // home moved to the first row and column
	clear   int    // the offset of the last erasure while the cursor's place is unknown, plus one
	margins [2]int // the last sequence that set them
	lines   []int  // the last ends of lines since the program last moved other than by text
	count   int    // how many those were
}

// The kinds of modes whose last sequence counts for what is drawn after it, on both screens.
const (
	charset0 = iota
	charset1
	wrapping
	origin
	cursorShown
	modeKinds
)

// text reads text without escape sequences.
func (d *drawer) text(from, to int) {
	if from == to {
		return
	}
	l := d.onto
	l.home, l.clear = 0, 0
	if d.rows == 0 || l.margins != [2]int{} {
		return
	}
	for at := from; ; {
		n := bytes.IndexByte(d.b[at:to], '\n')
		if n < 0 {
			return
		}
		at += n + 1
		if at < 2 || d.b[at-2] != '\r' { // the next line can begin in any column
			continue
		}
		if len(l.lines) < d.rows {
			l.lines = append(l.lines, at)
		} else {
			l.lines[l.count%d.rows] = at
		}
		l.count++
	}
}

// sequence reads an escape sequence.
func (d *drawer) sequence(from, to int, q escape.Sequence) {
	switch {
	case q.Private && switches(q):
		d.switchScreen(from, to, q.Final == 'h')
	case q.Private:
		d.privateMode(from, to, q)
	case q.Control:
		d.onto.control(from, to, q)
		d.placed = d.placed || q.Final == 'H' || q.Final == 'f' || q.Final == 'd'
	case q.Final == 'c':
		*d = drawer{b: d.b, rows: d.rows, main: layer{start: from, whole: true}}
		d.onto = &d.main
	case q.Final != 0 && q.Final != '=' && q.Final != '>':
		d.onto.moved()
	case to-from == 3:
		d.charset(from, to, d.b[from+1])
	}
}

func (d *drawer) switchScreen(from, to int, alternate bool) {
	switch {
	case alternate && d.onto == &d.main:
		d.alt = layer{start: to, whole: true}
		d.onto, d.switched = &d.alt, from
	case !alternate && d.onto == &d.alt:
		d.main.parts = append(d.main.parts, [2]int{d.main.start, d.switched})
		d.onto, d.main.start = &d.main, to
		d.main.moved()
	case !alternate && !d.main.whole: // output before b has switched to the alternate screen
		d.main = layer{start: to}
	}
}

// privateMode reads a private control sequence.
func (d *drawer) privateMode(from, to int, q escape.Sequence) {
	if q.Final != 'h' && q.Final != 'l' {
		return
	}
	switch q.Params[0] {
	case 1:
		if q.Final == 'l' {
			d.appKeys, d.placed = 0, false
		} else if d.appKeys == 0 {
			d.appKeys = from + 1
		}
	case 6:
		d.modes[origin] = [2]int{from, to}
	case 7:
		d.modes[wrapping] = [2]int{from, to}
	case 25:
		d.modes[cursorShown] = [2]int{from, to}
	}
}

// charset reads the choice of a character set.
func (d *drawer) charset(from, to int, which byte) {
	switch which {
	case '(':
		d.modes[charset0] = [2]int{from, to}
	case ')':
		d.modes[charset1] = [2]int{from, to}
	}
}

// control reads a control sequence that is not private.
func (l *layer) control(from, to int, q escape.Sequence) {
	switch q.Final {
	case 'm', 'K', 'h', 'l', 't', 'n', 'c', 'q': // they don't move
	case 'H', 'f':
		l.moved()
		if l.clear > 0 {
			l.begin(l.clear - 1)
		}
		l.home, l.top = from+1, q.Params[0] <= 1 && q.Params[1] <= 1
	case 'J':
		if home := l.home; q.Params[0] == 2 || q.Params[0] == 0 && home > 0 && l.top {
			l.moved()
			l.erased(from, home)
		}
	case 'r':
		l.moved()
		l.margins = [2]int{from, to}
	default:
		l.moved()
	}
}

// moved notes that the program has moved in another way than by text.
func (l *layer) moved() {
	l.scroll()
	l.lines, l.count, l.home = l.lines[:0], 0, 0
}

// scroll leaves out what text has scrolled off the screen.
func (l *layer) scroll() {
	if n := len(l.lines); l.count > n {
		l.begin(l.lines[l.count%n])
	}
}

// erased notes that the screen was erased at from. What is drawn later depends on the place of the
// cursor: the program has set it just before, or sets it next.
func (l *layer) erased(from, home int) {
	if home > 0 {
		l.begin(home - 1)
		return
	}
	l.clear = from + 1
}

// begin makes the layer begin at an offset.
func (l *layer) begin(at int) {
	l.parts, l.start, l.whole, l.clear = nil, at, true, 0
}

// drawing returns what was read.
func (d *drawer) drawing() Drawing {
	r := Drawing{Parts: d.parts(d.onto, len(d.b))}
	r.Whole = d.onto.whole
	switch {
	case d.onto == &d.alt:
		r.Full, r.Start = true, d.switched
		r.Under = d.parts(&d.main, d.switched)
	case d.appKeys > 0 && d.placed:
		r.Full, r.Start = true, d.appKeys-1
	}
	return r
}

// parts returns the parts of a layer up to an offset, and the last sequences before it that set
// modes.
func (d *drawer) parts(l *layer, end int) (parts [][]byte) {
	l.scroll()
	ranges := append(l.parts, [2]int{l.start, end})
	for _, mode := range append(d.modes[:], l.margins) {
		within := func(part [2]int) bool { return part[0] <= mode[0] && mode[0] < part[1] }
		if mode[1] > 0 && mode[0] < end && !slices.ContainsFunc(ranges, within) {
			ranges = append(ranges, mode)
		}
	}
	slices.SortFunc(ranges, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	for _, part := range ranges {
		parts = append(parts, d.b[part[0]:part[1]])
	}
	return parts
}
