package screen

import (
	"errors"
	"slices"
	"time"

	"asyncrepl/internal/text/view"
)

// Window is how many bytes of the newest output decide what is drawn. A program that draws over its
// own output for long has usually cleared its screen within them.
const Window = 256 << 10

// limit is how much processor time drawing can take, so that output that is made to cost time can't
// delay a reply.
const limit = 200 * time.Millisecond

var errSlow = errors.New("drawing a screen takes too long")

// A Picture is what a terminal shows.
type Picture struct {
	Size     Size
	Rows     []string // up to the last one that is not blank
	Row, Col int      // the place of the cursor
	Hidden   bool     // the cursor is not shown
	Whole    bool     // nothing that was written before could be on the screen, too
}

// A Size is the size of a terminal in character cells.
type Size struct{ Rows, Cols int }

// Draw returns what a terminal shows after b, the newest output. begins reports whether b is all of
// its output.
func Draw(b []byte, begins bool, size Size) (Picture, error) {
	d := view.Drawn(b, size.Rows, begins)
	s := New(size.Rows, size.Cols)
	s.writeParts(d.Parts...)
	p := Picture{Size: size, Rows: s.Rows(), Hidden: s.hidden, Whole: d.Whole}
	p.Row, p.Col, _ = s.Cursor()
	return p, s.err
}

// After returns the screen of a terminal after b, the newest output, to be written to further.
func After(b []byte, begins bool, size Size) *Screen {
	d := view.Drawn(b, size.Rows, begins)
	s := New(size.Rows, size.Cols)
	parts := d.Parts
	if d.Under != nil {
		parts = slices.Concat(d.Under, [][]byte{[]byte("\x1b[?1049h")}, d.Parts)
	}
	s.writeParts(parts...)
	return s
}
