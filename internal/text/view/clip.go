package view

import (
	"bytes"
	"slices"
)

// A Section is the text of one section of a reply. If nothing was left out, all of it is in Head.
type Section struct{ Head, Tail string }

// A Page is the part of a log that a reply shows.
type Page struct {
	Sections []Section // indexed by Span.Section
	From, To int64     // the bytes between these cursors are left out; equal if none are
}

// Omitted returns how many bytes of the log the page leaves out.
func (p Page) Omitted() int64 { return p.To - p.From }

// A Budget is how many characters a page may have. A page shows at least one.
type Budget struct {
	Head int // the most before the gap; 0 shows only the end, Max only the beginning
	Max  int // the most on the page

	Raw bool // show the bytes, escaped, and not their text
}

// Clip returns the text of two stretches of a log within a budget: all of it if that fits, else the
// head of the first and the tail of the second. The stretches can touch, or leave out bytes between
// them, which count as omitted; either can be empty. A page is cut at the end of a line, or inside
// a long line, but never inside a character or an escape sequence: the text of a page is the text
// of the bytes that it does not omit. Clip never estimates how much fits: it renders until it has
// found out, and returns text that it has rendered. Lines that would read as a section mark are
// escaped.
func Clip(head, tail Stretch, b Budget) Page {
	b.Max = max(b.Max, 1)
	b.Head = min(b.Head, b.Max)
	h, t := flatten(head), flatten(tail)
	h.raw, t.raw = b.Raw, b.Raw
	if len(t.data) == 0 || len(h.data) == 0 || head.End() == tail.Cursor {
		cursor := head.Cursor
		if len(h.data) == 0 && len(t.data) > 0 {
			cursor = tail.Cursor
		}
		h = flatten(Stretch{Cursor: cursor, Spans: slices.Concat(head.Spans, tail.Spans), begun: head.begun})
		h.raw = b.Raw
		t = h
		if text, _, ok := h.render(0, len(h.data), b.Max); ok {
			return Page{Sections: sections(text, nil), From: h.cursor, To: h.cursor}
		}
	}
	cut, text, chars := h.head(b.Head)
	from := h.cursor + int64(cut)
	if b.Head == b.Max {
		return Page{Sections: sections(text, nil), From: from, To: t.cursor + int64(len(t.data))}
	}
	low := 0
	if from >= t.cursor {
		low = int(from - t.cursor)
	}
	low, rest := t.tail(low, b.Max-chars)
	p := Page{Sections: sections(text, rest), From: from, To: t.cursor + int64(low)}
	if p.Omitted() == 0 { // rendered as two parts, all of it fits
		for i, s := range p.Sections {
			p.Sections[i] = Section{Head: s.Head + s.Tail}
		}
	}
	return p
}

func sections(head, tail []string) []Section {
	s := make([]Section, max(len(head), len(tail)))
	for i := range head {
		s[i].Head = head[i]
	}
	for i := range tail {
		s[i].Tail = tail[i]
	}
	return s
}

// head finds how much from the start fits the budget. The cut is after a line if that leaves at
// least half of the bytes that fit.
func (f flat) head(budget int) (cut int, text []string, chars int) {
	if budget <= 0 || len(f.data) == 0 {
		return 0, nil, 0
	}
	fits := func(n int) (int, bool) {
		at := f.boundary(n)
		t, count, ok := f.render(0, at, budget)
		if ok {
			cut, text, chars = at, t, count
		}
		return count, ok
	}
	longest(len(f.data), budget, fits)
	if line := f.lineEnd(cut); line < cut && line > cut/2 {
		fits(line)
	}
	// The bytes that fit can be without characters. A page shows at least one, even if it does not
	// fit.
	for chars == 0 && cut < len(f.data) {
		cut = f.nextBoundary(cut)
		text, chars, _ = f.render(0, cut, max(budget, cut))
	}
	return cut, text, chars
}

// tail finds how much up to the end, and not before low, fits the budget. It begins at the start of
// a line if that leaves at least half of the bytes that fit.
func (f flat) tail(low, budget int) (start int, text []string) {
	start = len(f.data)
	if low >= start || budget <= 0 {
		return start, nil
	}
	fits := func(n int) (int, bool) {
		at := max(low, f.boundary(len(f.data)-n))
		t, chars, ok := f.render(at, len(f.data), budget)
		if ok {
			start, text = at, t
		}
		return chars, ok
	}
	longest(len(f.data)-low, budget, fits)
	if f.startsLine(start) || start == low && low > 0 {
		return start, text
	}
	if line := f.lineEnd(start); line > low { // the bytes up to start can be without characters
		if _, ok := fits(len(f.data) - line); ok {
			return start, text
		}
	}
	if i := bytes.IndexByte(f.data[start:], '\n'); i >= 0 && i+1 < (len(f.data)-start)/2 {
		fits(len(f.data) - (start + i + 1))
	}
	return start, text
}

// lineEnd returns the last end of a line that is not after at, or 0 if no line ends there.
func (f flat) lineEnd(at int) int {
	return bytes.LastIndexByte(f.data[:at], '\n') + 1
}

// longest finds the largest n <= size for which fits(n) holds. Callers rely on fits being called for
// that n last. fits(n) returns how many characters n bytes have, and whether they fit the budget. The
// first guess is one character a byte; later guesses use the ratio seen so far. While less than half
// of the budget is used, a guess at least doubles the one before, and every fourth guess bisects.
func longest(size, budget int, fits func(n int) (chars int, ok bool)) {
	low, high := 0, size+1 // low fits, high does not
	rate := 1.0            // bytes per character
	shown := 0
	for tries := 0; high-low > 1; tries++ {
		n := low + max(1, int(rate*float64(budget-shown)))
		if 2*shown <= budget {
			n = max(n, 2*low)
		}
		if n >= high || tries%4 == 3 {
			n = low + (high-low)/2
		}
		chars, ok := fits(n)
		if !ok {
			high = n
			continue
		}
		low, shown = n, chars
		if chars == budget {
			return
		}
		if chars > 0 {
			rate = float64(n) / float64(chars)
		}
	}
}
