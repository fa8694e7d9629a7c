package view

// A Span is a run of raw bytes that belongs to one section of a reply (0 and up).
type Span struct {
	Section int
	Data    []byte
}

// A Window is a run of a log: spans in order of arrival, without a gap, the first byte at Cursor.
type Window struct {
	Cursor int64
	Spans  []Span
}

// End returns the cursor behind the window's last byte.
func (w Window) End() int64 {
	end := w.Cursor
	for _, s := range w.Spans {
		end += int64(len(s.Data))
	}
	return end
}

// A Section is what one section of a reply shows: all of it in Head when nothing was left out.
type Section struct{ Head, Tail string }

// A Page is what a reply shows of a log.
type Page struct {
	Sections []Section // by Span.Section
	From, To int64     // the bytes with these cursors are left out; equal when none are
}

// Omitted returns how many bytes of the log the page leaves out.
func (p Page) Omitted() int64 { return p.To - p.From }

// Budget is how many characters a page may have.
type Budget struct {
	Head int // of these, at most so many for the head; 0 shows the tail only
	Max  int
}

// Clip shows the windows within the budget.
func Clip(head, tail Window, b Budget) Page { return Page{} }
