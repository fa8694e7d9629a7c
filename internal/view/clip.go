package view

import (
	"bytes"
	"math"
	"unicode/utf8"
)

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

// End returns the cursor after the window's last byte.
func (w Window) End() int64 {
	end := w.Cursor
	for _, s := range w.Spans {
		end += int64(len(s.Data))
	}
	return end
}

// A Section is the text of one section of a reply. If nothing was left out, all of it is in Head.
type Section struct{ Head, Tail string }

// A Page is the part of a log that a reply shows.
type Page struct {
	Sections []Section // by Span.Section
	From, To int64     // the bytes between these cursors are left out; equal if none are
}

// Omitted returns how many bytes of the log the page leaves out.
func (p Page) Omitted() int64 { return p.To - p.From }

// A Budget is how many characters a page may have.
type Budget struct {
	Head int // at most this many before the gap, and never more than half of Max; 0 shows only the end
	Max  int // in all; less than 256 counts as 256
}

const (
	minBudget = 256
	maxLine   = 2000 // longer lines are clamped
)

// Clip returns the text of two windows of a log within a budget: all of it if that fits, else the
// head of the first and the tail of the second, cut at ends of lines. The windows can touch, or
// leave out bytes between them, which count as omitted; the second can be empty. Clip never
// estimates how much fits: it renders until it has found out, and returns text that it has
// rendered. Lines are clamped to 2,000 characters, and escaped if they would read as a section
// mark.
func Clip(head, tail Window, b Budget) Page {
	b.Max = max(b.Max, minBudget)
	b.Head = min(b.Head, b.Max/2)
	h, t := flatten(head), flatten(tail)
	if len(t.data) == 0 || len(h.data) == 0 || head.End() == tail.Cursor {
		cursor := head.Cursor
		if len(h.data) == 0 && len(t.data) > 0 {
			cursor = tail.Cursor
		}
		h = flatten(Window{cursor, append(head.Spans[:len(head.Spans):len(head.Spans)], tail.Spans...)})
		t = h
		if text, _, ok := h.render(0, len(h.data), maxLine, b.Max); ok {
			return Page{Sections: sections(text, nil), From: h.cursor, To: h.cursor}
		}
	}
	cut, text, chars := h.head(b.Head)
	from := h.cursor + int64(cut)
	low := 0
	if from >= t.cursor {
		low = int(from - t.cursor)
	}
	low, rest := t.tail(low, b.Max-chars)
	p := Page{Sections: sections(text, rest), From: from, To: t.cursor + int64(low)}
	if p.Omitted() == 0 { // only lines that are clamped to less now were too long
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

// A stretch is a window with its bytes in one piece.
type stretch struct {
	cursor   int64
	data     []byte
	runs     []run
	sections int
}

// A run says which section the bytes up to end belong to.
type run struct{ end, section int }

func flatten(w Window) stretch {
	f := stretch{cursor: w.Cursor}
	end := 0
	for _, s := range w.Spans {
		end += len(s.Data)
		f.runs = append(f.runs, run{end, s.Section})
		f.sections = max(f.sections, s.Section+1)
	}
	if len(w.Spans) == 1 {
		f.data = w.Spans[0].Data
		return f
	}
	f.data = make([]byte, 0, end)
	for _, s := range w.Spans {
		f.data = append(f.data, s.Data...)
	}
	return f
}

// of returns the bytes of a section between two offsets.
func (f stretch) of(section, from, to int) []byte {
	var b []byte
	copied := false
	start := 0
	for _, r := range f.runs {
		lo, hi := max(start, from), min(r.end, to)
		start = r.end
		if r.section != section || lo >= hi {
			continue
		}
		switch piece := f.data[lo:hi]; {
		case b == nil:
			b = piece
		case !copied:
			b = append(append(make([]byte, 0, to-from), b...), piece...)
			copied = true
		default:
			b = append(b, piece...)
		}
	}
	return b
}

// render returns the text of the bytes between two offsets, by section, and reports whether it has
// at most budget characters.
func (f stretch) render(from, to, clamp, budget int) (text []string, chars int, ok bool) {
	text = make([]string, f.sections)
	for i := range text {
		b := f.of(i, from, to)
		if from == 0 && f.cursor > 0 {
			b = b[Begin(b, 0):]
		}
		l := render(b, lines{clamp: clamp, mark: true, max: budget - chars})
		chars += l.chars
		if chars > budget {
			return nil, 0, false
		}
		text[i] = string(l.text)
	}
	return text, chars, true
}

// head finds how many complete lines from the start fit the budget.
func (f stretch) head(budget int) (cut int, text []string, chars int) {
	if budget <= 0 {
		return 0, nil, 0
	}
	fits := func(at int) bool {
		t, n, ok := f.render(0, at, maxLine, budget)
		if ok {
			cut, text, chars = at, t, n
		}
		return ok
	}
	hi := len(f.data)
	for size := budget; size < len(f.data); size *= 2 {
		if at := f.lineEnd(size); at > cut && !fits(at) {
			hi = at - 1
			break
		}
	}
	f.search(cut, hi, fits)
	return cut, text, chars
}

// tail finds the first start of a line, not before low, from which the rest fits the budget.
func (f stretch) tail(low, budget int) (start int, text []string) {
	clamp := min(maxLine, budget)
	start = len(f.data)
	tooMuch := func(at int) bool {
		t, _, ok := f.render(at, len(f.data), clamp, budget)
		if ok {
			start, text = at, t
		}
		return !ok
	}
	if low >= len(f.data) {
		return start, nil
	}
	lo := low
	for size := budget; size < len(f.data)-low; size *= 2 {
		if at := f.lineEnd(len(f.data) - size); at > low && tooMuch(at) {
			lo = at
			break
		}
	}
	if lo > low || !f.startsLine(low) || tooMuch(low) {
		f.search(lo, start, tooMuch)
	}
	if start == len(f.data) {
		return f.lastPart(low, clamp, budget)
	}
	return start, text
}

// lastPart returns the end of a last line that does not fit or has no start in the window, or of a
// screen that is drawn without any newline.
func (f stretch) lastPart(low, clamp, budget int) (start int, text []string) {
	start = max(low, f.lineEnd(len(f.data)-1))
	text, _, _ = f.render(start, len(f.data), clamp, math.MaxInt)
	for i := range text {
		text[i] = lastChars(text[i], budget/len(text))
	}
	return start, text
}

// startsLine reports whether a line begins at an offset. At the start of a window this is known
// only if the window begins the log.
func (f stretch) startsLine(at int) bool {
	if at == 0 {
		return f.cursor == 0
	}
	return f.data[at-1] == '\n'
}

// lineEnd returns the last end of a line that is not after at, 0 if there is none.
func (f stretch) lineEnd(at int) int {
	return bytes.LastIndexByte(f.data[:at], '\n') + 1
}

// search finds an end of a line after lo and not after hi by bisection: yes reports whether the
// wanted end is at the offset or after it.
func (f stretch) search(lo, hi int, yes func(at int) bool) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		at := f.lineEnd(mid)
		if at <= lo { // no line ends in the lower half
			i := bytes.IndexByte(f.data[mid:hi], '\n')
			if i < 0 {
				return
			}
			at = mid + i + 1
		}
		if yes(at) {
			lo = at
		} else {
			hi = at - 1
		}
	}
}

// lastChars returns the end of s in at most n characters, and says how much is missing.
func lastChars(s string, n int) string {
	count := utf8.RuneCountInString(s)
	if count <= n {
		return s
	}
	keep := max(n-markRoom, 0)
	i := len(s)
	for range keep {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return "[… " + Count(count-keep) + " characters …]" + s[i:]
}
