package view

import (
	"cmp"
	"slices"
)

// A Span is a run of raw bytes that belongs to one section of a reply (0 and up).
type Span struct {
	Section int
	Data    []byte
}

// A Stretch is a part of a log: spans in order of arrival, without a gap, the first byte at Cursor.
type Stretch struct {
	Cursor int64
	Spans  []Span

	begun [][]byte // each section's bytes before the stretch, in a line drawn over, see After
}

// After returns s, which follows before, so that it is shown with the beginning of its first line if
// a program draws over that line: a bar is shown in its last state, wherever a read begins in it.
func (s Stretch) After(before Stretch) Stretch {
	if before.End() != s.Cursor {
		return s
	}
	b, f := flatten(before), flatten(s)
	for i := range min(b.sections, f.sections) {
		s.begun = append(s.begun, Begun(b.of(i, 0, len(b.data)), f.of(i, 0, len(f.data))))
	}
	return s
}

// End returns the cursor after the last byte.
func (s Stretch) End() int64 {
	end := s.Cursor
	for _, span := range s.Spans {
		end += int64(len(span.Data))
	}
	return end
}

// Until returns s up to the cursor end. It shares no list of spans with s.
func (s Stretch) Until(end int64) Stretch {
	cut := Stretch{Cursor: s.Cursor, begun: s.begun}
	left := end - s.Cursor
	for _, span := range s.Spans {
		if left <= 0 {
			break
		}
		n := min(left, int64(len(span.Data)))
		cut.Spans = append(cut.Spans, Span{span.Section, span.Data[:n]})
		left -= n
	}
	return cut
}

// Complete returns s cut back until no section ends inside a character or an escape sequence, so
// that the next read begins with all of it. It does not cut a sequence that is too long to be one
// and might never end.
func (s Stretch) Complete() Stretch {
	end := s.End()
	newest := Stretch{Cursor: max(s.Cursor, end-maxHeld)}
	at := s.Cursor
	for _, span := range s.Spans {
		if skip := newest.Cursor - at; skip < int64(len(span.Data)) {
			newest.Spans = append(newest.Spans, Span{span.Section, span.Data[max(0, skip):]})
		}
		at += int64(len(span.Data))
	}
	f := flatten(newest)
	if cut := f.boundary(len(f.data)); cut < len(f.data) {
		return s.Until(f.cursor + int64(cut))
	}
	return s
}

// A flat is a stretch with its bytes in one piece.
type flat struct {
	cursor   int64
	data     []byte
	runs     []run
	sections int
	raw      bool // shown as bytes
	begun    [][]byte
}

// A run says which section the bytes from the end of the run before up to end belong to.
type run struct{ end, section int }

func flatten(s Stretch) flat {
	f := flat{cursor: s.Cursor, begun: s.begun}
	end := 0
	for _, span := range s.Spans {
		end += len(span.Data)
		f.runs = append(f.runs, run{end, span.Section})
		f.sections = max(f.sections, span.Section+1)
	}
	if len(s.Spans) == 1 {
		f.data = s.Spans[0].Data
		return f
	}
	f.data = make([]byte, 0, end)
	for _, span := range s.Spans {
		f.data = append(f.data, span.Data...)
	}
	return f
}

// pieces calls each, in order, with the offsets of every piece of a section between two offsets.
func (f flat) pieces(section, from, to int, each func(lo, hi int)) {
	first, _ := slices.BinarySearchFunc(f.runs, from+1, func(r run, at int) int { return cmp.Compare(r.end, at) })
	start := 0
	if first > 0 {
		start = f.runs[first-1].end
	}
	for _, r := range f.runs[first:] {
		if start >= to {
			break
		}
		if r.section == section {
			each(max(start, from), min(r.end, to))
		}
		start = r.end
	}
}

// of returns the bytes of a section between two offsets.
func (f flat) of(section, from, to int) []byte {
	var b []byte
	copied := false
	f.pieces(section, from, to, func(lo, hi int) {
		switch piece := f.data[lo:hi]; {
		case b == nil:
			b = piece
		case !copied:
			b = append(append(make([]byte, 0, to-from), b...), piece...)
			copied = true
		default:
			b = append(b, piece...)
		}
	})
	return b
}

// maxMoves bounds how often boundary moves. The output of programs needs fewer moves; output that
// is made to cost time could need one a byte.
const maxMoves = 50

// boundary returns the last offset up to at at which no section is inside a character or an escape
// sequence. A move back for one section can split a sequence of another, and cause another move. It
// returns at if that would move it by more than maxHeld bytes, or more than maxMoves times.
func (f flat) boundary(at int) int {
	cut := at
	for range maxMoves {
		next := cut
		for section := range f.sections {
			next = min(next, f.boundaryOf(section, cut))
		}
		switch {
		case next == cut:
			return cut
		case at-next > maxHeld:
			return at
		}
		cut = next
	}
	return at
}

// boundaryOf is boundary for one section.
func (f flat) boundaryOf(section, at int) int {
	low := max(0, at-maxHeld)
	b := f.of(section, low, at)
	keep := complete(b)
	if keep == len(b) {
		return at
	}
	if next := f.of(section, at, min(at+maxHeld, len(f.data))); len(next) > 0 {
		if all := slices.Concat(b, next); Begin(all, len(b)) == len(b) {
			return at // something else begins at at, which breaks off what began before it
		}
	}
	offset := at
	f.pieces(section, low, at, func(lo, hi int) {
		if n := hi - lo; keep >= 0 {
			offset = lo + keep
			keep -= n
		}
	})
	return offset
}

// nextBoundary returns one of the first boundaries after at, or the end.
func (f flat) nextBoundary(at int) int {
	for n := 1; at+n < len(f.data); n *= 2 {
		if cut := f.boundary(at + n); cut > at {
			return cut
		}
	}
	return len(f.data)
}

// render returns the text of the bytes between two offsets, by section, and reports whether it has
// at most budget characters.
func (f flat) render(from, to, budget int) (text []string, chars int, ok bool) {
	text = make([]string, f.sections)
	for i := range text {
		b := f.of(i, from, to)
		if f.raw {
			shown, n := raw(b, budget-chars)
			if chars += n; chars > budget {
				return nil, chars, false
			}
			text[i] = string(shown)
			continue
		}
		switch {
		case from > 0 || f.cursor == 0:
		case i < len(f.begun) && f.begun[i] != nil && len(b) > 0:
			b = slices.Concat(f.begun[i], b)
		default:
			b = b[Begin(b, 0):]
		}
		l := render(b, lines{mark: true, max: budget - chars})
		chars += l.chars
		if chars > budget {
			return nil, chars, false
		}
		text[i] = string(l.text)
	}
	return text, chars, true
}

// startsLine reports whether a line begins at an offset. At the start of a stretch this is known
// only if the stretch begins the log.
func (f flat) startsLine(at int) bool {
	if at == 0 {
		return f.cursor == 0
	}
	return f.data[at-1] == '\n'
}
