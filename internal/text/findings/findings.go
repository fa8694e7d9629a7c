// Package findings finds the first error of each kind in a part of a log: what a reader looks for
// first in the middle of a long build that a reply leaves out.
//
// [Search.In] searches the first and the last 4 MiB of the part, in the text view, and says what it
// has not searched. How much that is depends on bytes and lines, never on time, so that the same
// part has the same findings. A line is compared with the pattern of a kind only if it has one of
// the kind's words, and a kind is looked for until it is found. The kinds are in kinds.go.
package findings

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/lines"
	"asyncrepl/internal/text/view"
)

// Limits of a search, so that a reply about a log of any size takes a bounded time.
const (
	endBytes = 4 << 20 // bytes that are searched at each end
	endLines = 5000    // lines with a word that are compared with patterns, at each end
	most     = 10      // findings
	keyBytes = 500     // bytes of a line that are compared with patterns
	textMax  = 200     // characters of a line that are shown
)

// A Finding is a line that looks like an error.
type Finding struct {
	Section lines.Section
	At      int64  // the cursor at which the line begins
	Text    string // the line, cut to 200 characters
}

// Findings are the first lines of each kind, 10 at most. A kind that a part's beginning shows is
// not found again in the rest.
type Findings struct {
	List       []Finding
	Unsearched []output.Range
}

// In returns the lines of the findings that begin in a range, as a reply shows them: by section, in
// their order, as many as room has characters for. It also returns how many these are.
func (f Findings) In(r output.Range, room int) (text [lines.Sections]string, n int) {
	list := slices.SortedFunc(slices.Values(f.List), func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
	for _, each := range list {
		line := fmt.Sprintf("[cursor %d] %s\n", each.At, each.Text)
		if each.At < r.From || each.At >= r.To {
			continue
		}
		if room -= utf8.RuneCountInString(line); room < 0 {
			break
		}
		text[each.Section] += line
		n++
	}
	return text, n
}

// A Search keeps what it has found, for a caller that asks again. The zero value is ready to use.
// Nil finds nothing.
type Search struct {
	done  bool
	found Findings
}

// In returns the findings in a log from a cursor up to another one. Later calls return the same,
// whatever their cursors are.
func (s *Search) In(log output.Reader, from, to int64) Findings {
	if s == nil {
		return Findings{}
	}
	if !s.done {
		s.done, s.found = true, search(log, from, to)
	}
	return s.found
}

func search(log output.Reader, from, to int64) Findings {
	f := finder{log: log, kinds: kinds(), pairs: pairs(), known: make([]bool, len(kinds()))}
	if to-from <= 2*endBytes {
		f.read(from, to, 2*endLines)
		return f.found
	}
	f.read(from, from+endBytes, endLines)
	f.skip(from+endBytes, to-endBytes)
	f.torn = true
	f.read(to-endBytes, to, endLines)
	return f.found
}

// A finder searches the ends of a part of a log.
type finder struct {
	log   output.Reader
	found Findings
	kinds []kind
	pairs *wordPairs
	known []bool // the kinds that were found
	lines int    // how many more lines with a word can be compared with patterns
	torn  bool   // the first line can be the rest of one
	left  int64  // the cursor of the first line left out because there were enough; -1: none
}

// skip notes that the bytes between two cursors are not searched.
func (f *finder) skip(from, to int64) {
	if from < to {
		f.found.Unsearched = append(f.found.Unsearched, output.Range{From: from, To: to})
	}
}

// read searches the bytes between two cursors, and compares so many lines with patterns at most.
func (f *finder) read(from, to int64, lineMax int) {
	f.lines, f.left = lineMax, -1
	s := lines.NewScanner(f.log, from, func(b lines.Block) { f.block(b, from) })
	for !f.full() && s.Read(to) {
	}
	if f.full() {
		left := s.Passed()
		if f.left >= 0 {
			left = min(left, f.left)
		}
		f.skip(left, to)
		return
	}
	s.Finish()
}

// full reports whether enough lines were read, or found.
func (f *finder) full() bool { return f.lines <= 0 || len(f.found.List) >= most }

// block searches a block of a part that begins at a cursor.
func (f *finder) block(b lines.Block, begin int64) {
	for at := 0; at < len(b.Text); {
		if f.full() {
			if first := b.Cursor(at); f.left < 0 || first < f.left {
				f.left = first
			}
			return
		}
		i := f.candidate(b.Text, at)
		if i < 0 {
			return
		}
		start, end, next := b.Bounds(i)
		if cut := start == 0 && b.Begun || f.torn && b.Cursor(start) == begin; !cut {
			f.lines--
			f.line(b, start, end)
		}
		at = next
	}
}

// candidate returns where the next word of a kind that is looked for begins, or -1. It reads two of
// three bytes: wherever a word begins, one of the pairs is among its first three.
func (f *finder) candidate(text []byte, at int) int {
	pairs := f.pairs
	for p := at; p+1 < len(text); p += 3 {
		for _, w := range pairs.lists[pairs.index[int(text[p])<<8|int(text[p+1])]] {
			if q := p - w.offset; q >= at && !f.known[w.kind] && bytes.HasPrefix(text[q:], w.text) {
				return q
			}
		}
	}
	return -1
}

// line adds a line of a block to the findings if it is the first of a kind.
func (f *finder) line(b lines.Block, start, end int) {
	text := b.Text[start:min(end, start+keyBytes)]
	key := text[len(prefix().Find(text)):]
	for i := range f.kinds {
		if f.known[i] || !f.kinds[i].matches(key) {
			continue
		}
		f.known[i] = true
		f.found.List = append(f.found.List, Finding{b.Section, b.Cursor(start), view.Line(string(text), textMax)})
		return
	}
}
