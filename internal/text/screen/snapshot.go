package screen

// A Snapshot is made when it is read, of the newest output alone, in 200 ms at most. OfLog takes one in
// any case, OfFullScreen only if a program draws on all of the screen. Their error means that the
// screen can't be drawn, and that the text of the output is all that there is to show.

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
)

// ErrNotDrawn means that the screen can't be drawn: its output takes too long, or is too much for
// the emulator of the terminal.
var ErrNotDrawn = errors.New("the screen can't be drawn: read view=text")

// A Snapshot is what a terminal shows after the output up to a cursor.
type Snapshot struct {
	Picture
	// Start is the cursor at which the program that draws on all of the screen began, or End if no
	// program does.
	Start int64
	End   int64
}

// OfLog returns what a terminal of some size shows after all output of a log.
func OfLog(log output.Reader, rows, cols int) (Snapshot, error) {
	b, at := newest(log)
	return draw(b, at, rows, cols)
}

// OfFullScreen returns what a terminal of some size shows. It reports false if no program draws on
// all of it, or if the screen can't be drawn.
func OfFullScreen(log output.Reader, rows, cols int) (Snapshot, bool) {
	b, at := newest(log)
	if !view.FullScreen(b) {
		return Snapshot{}, false
	}
	s, err := draw(b, at, rows, cols)
	return s, err == nil
}

func draw(b []byte, at int64, rows, cols int) (Snapshot, error) {
	s := Snapshot{End: at + int64(len(b)), Start: at + int64(len(b))}
	if d := view.Drawn(b, 0, at == 0); d.Full {
		s.Start = at + int64(d.Start)
	}
	var err error
	if s.Picture, err = Draw(b, at == 0, Size{Rows: rows, Cols: cols}); err != nil {
		return s, ErrNotDrawn
	}
	return s, nil
}

// newest returns the newest output of a log, without a gap, and the cursor at which it begins.
func newest(log output.Reader) (b []byte, from int64) { return Between(log, 0, log.Stat().End) }

// Between returns the newest output of a terminal that a log holds between two cursors, without a
// gap, and the cursor at which it begins. It is of at most [screen.Window] bytes.
func Between(log output.Reader, from, end int64) ([]byte, int64) {
	from = max(from, end-Window)
	var b []byte
	for at := from; at < end; {
		c := log.Read(at, int(end-at))
		if c.Dropped > 0 {
			b, from = nil, c.From
		}
		if c.Next == c.From {
			break
		}
		for _, span := range c.Spans {
			if span.Stream == output.TTY {
				b = append(b, span.Data...)
			}
		}
		at = c.Next
	}
	return b, from
}

// Describe returns the size of the screen, the place of its cursor and what a reader must know of
// its rows. A reply shows so many of them as shown says.
func (s Snapshot) Describe(shown int) string {
	var b strings.Builder
	if !s.Whole {
		b.WriteString("may be incomplete; ")
	}
	fmt.Fprintf(&b, "%s, %s; ", view.CountOf(s.Size.Rows, "row"), view.CountOf(s.Size.Cols, "column"))
	if s.Hidden {
		b.WriteString("cursor hidden")
	} else {
		fmt.Fprintf(&b, "cursor in row %d, column %d", s.Row, s.Col)
	}
	if shown < len(s.Rows) {
		fmt.Fprintf(&b, "; only the first %s fit", view.CountOf(shown, "row"))
	}
	return b.String()
}

// Text returns the rows as lines, as many from the top as fit into room characters, and their
// number.
func (s Snapshot) Text(room int) (text string, shown int) {
	var b strings.Builder
	for _, row := range s.Rows {
		line := view.EscapeMark(row) + "\n"
		if room -= utf8.RuneCountInString(line); room < 0 {
			break
		}
		b.WriteString(line)
		shown++
	}
	return b.String(), shown
}

// Changes returns the rows that differ from those of an earlier snapshot of the terminal, as lines that
// begin with their numbers. It reports false if all rows say it better: most of them have changed, or
// the size has, or it is not known what one of the snapshots lacks.
func (s Snapshot) Changes(from Snapshot) (text string, ok bool) {
	if s.Size != from.Size || !s.Whole || !from.Whole {
		return "", false
	}
	var b strings.Builder
	rows, changed := max(len(s.Rows), len(from.Rows)), 0
	for y := range rows {
		now := rowAt(s.Rows, y)
		if now == rowAt(from.Rows, y) {
			continue
		}
		changed++
		b.WriteString(strings.TrimRight(fmt.Sprintf("%d: %s", y+1, now), " ") + "\n")
	}
	return b.String(), 2*changed <= rows
}

// rowAt returns a row, which is blank after the last one.
func rowAt(rows []string, y int) string {
	if y < len(rows) {
		return rows[y]
	}
	return ""
}
