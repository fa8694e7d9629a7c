package screen

import (
	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
)

// A Follower follows the cursor of a terminal through the log of its output. At each call it draws
// the output since the last one, but not more than its newest [screen.Window] bytes. The zero
// Follower has drawn nothing yet.
type Follower struct {
	log        output.Reader
	at         int64   // the screen is drawn up to this cursor of the log
	screen     *Screen // nil: nothing is drawn, or it can't be
	rows, cols int     // the size of the screen
}

// short bounds the output, in bytes, that is drawn without a check whether it alone decides what is
// shown: drawing it costs little.
const short = 1 << 10

// Cursor returns where the cursor of a terminal of some size is after the output up to the cursor
// end of a log. Between two calls for one log, end does not decrease. Another log belongs to
// another terminal. Cursor reports false if the screen can't be drawn.
func (f *Follower) Cursor(log output.Reader, end int64, rows, cols int) (row, col int, ok bool) {
	if log != f.log {
		*f = Follower{log: log}
	}
	start := f.at
	if f.screen == nil {
		start = 0
	}
	b, from := Between(log, start, end)
	if len(b) == 0 { // the log has dropped it
		return 0, 0, false
	}
	size := Size{Rows: rows, Cols: cols}
	switch {
	case f.screen == nil || from > f.at:
		f.screen = After(b, from == 0, size)
	case len(b) > short && !f.screen.Alternate() && decides(b, rows):
		f.screen = After(b, false, size)
	default:
		if rows != f.rows || cols != f.cols {
			f.screen.Resize(rows, cols)
		}
		f.screen.Write(b)
	}
	f.at = end
	f.rows, f.cols = rows, cols
	row, col, ok = f.screen.Cursor()
	if !ok {
		f.screen = nil // the next call draws the newest output, which may be without what failed
	}
	return row, col, ok
}

// decides reports whether the output b alone decides what both screens of a terminal show.
func decides(b []byte, rows int) bool {
	d := view.Drawn(b, rows, false)
	return d.Whole && d.Under == nil
}
