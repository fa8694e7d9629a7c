package search

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/lines"
)

// A Query says what to look for in a log.
type Query struct {
	Pattern *Pattern
	From    int64         // the cursor where the text begins
	Matches int           // how many matches to return
	Context int           // how many lines before and after each
	Limit   time.Duration // the search stops after this time and says how to continue
}

// A Line is one line of a result, shortened if it is long.
type Line struct {
	Section lines.Section
	At      int64 // the cursor from which to read it; rows that were made by one move share it
	Text    string
	place   int64 // the line's place in its section: the number of the block and an offset
}

// A Match is a line that matches, and lines around it.
type Match struct {
	Line
	Before, After []Line
}

// A Result is what a search has found.
type Result struct {
	Matches  []*Match       // sorted by cursor
	From, To int64          // the range that was searched
	Dropped  []output.Range // the parts of that range that are gone
	Next     int64          // the cursor of the next match; -1 if no match follows
	Late     bool           // the time was over; Next is where to continue
	Pieces   bool           // a line was searched in pieces because it is longer than 1 MiB
}

const (
	lineMax    = 300      // characters of a line of a result
	farBytes   = 4 << 10  // a match further into its line has a cursor shortly before the match
	checkBytes = 64 << 10 // bytes that the expression reads between two checks of the context
)

// Run searches a log.
func Run(ctx context.Context, log output.Reader, q Query) (Result, error) {
	limited, cancel := context.WithTimeout(ctx, q.Limit)
	defer cancel()
	s := &seeker{ctx: limited, query: q, finder: NewFinder(q.Pattern), missed: -1}
	s.scanner = lines.NewScanner(log, q.From, s.block)
	end := log.Stat().End // later output is for another search
	for !s.enough() && limited.Err() == nil && s.scanner.Read(end) {
	}
	if err := ctx.Err(); err != nil {
		return Result{}, context.Cause(ctx)
	}
	r := Result{From: q.From, To: s.scanner.Cursor(), Next: -1}
	switch {
	case limited.Err() != nil:
		r.Late, r.Next = true, s.scanner.Passed()
		if s.missed >= 0 {
			r.Next = s.missed
		}
		s.found = slices.DeleteFunc(s.found, func(m *Match) bool { return m.At >= r.Next })
	case !s.enough():
		s.scanner.Finish()
	}
	s.contextOnly = true
	// A match still lacks lines after it.
	if slices.ContainsFunc(s.sections[:], func(a around) bool { return len(a.open) > 0 }) {
		s.scanner.Read(end)
		s.scanner.Pending(s.block)
	}
	r.Dropped, r.Pieces = s.scanner.Dropped(), s.pieces
	r.Matches = s.found
	if n := s.wanted(); n < len(s.found) {
		r.Next, r.Matches = s.found[n].At, s.found[:n]
	}
	if r.Next >= 0 {
		r.To = r.Next
	}
	return r, nil
}

// A seeker looks for matches in the blocks that a scanner passes.
type seeker struct {
	ctx         context.Context
	query       Query
	scanner     *lines.Scanner
	finder      *Finder
	found       []*Match // sorted by cursor, at most one more than wanted
	blocks      int64    // the number of blocks passed
	sections    [lines.Sections]around
	unchecked   int   // bytes that the expression has read since the last check of the context
	missed      int64 // the first cursor not searched when the time was over; -1: there is none
	contextOnly bool  // the search wants only the lines after its matches
	pieces      bool
}

// around has the state that a section keeps between two blocks.
type around struct {
	before  []Line   // the last lines, for the Before of the next match
	open    []*Match // matches that still lack lines after them
	piece   []byte   // the end of a long line's last piece, which did not match
	pieceAt int64    // the cursor of the last row of that piece
	matched bool     // the piece has matched
}

// enough reports whether all matches that are wanted, and one more, were found, and none can come
// before them.
func (s *seeker) enough() bool {
	n := s.wanted()
	return len(s.found) > n && s.found[n].At < s.scanner.Passed()
}

// wanted returns how many of the matches belong to the result: the matches that the query asks for,
// and all that share the cursor of the last one, because no other search can begin between them.
func (s *seeker) wanted() int {
	n := s.query.Matches
	for 0 < n && n < len(s.found) && s.found[n].At == s.found[n-1].At {
		n++
	}
	return min(n, len(s.found))
}

// block searches one block.
func (s *seeker) block(b lines.Block) {
	s.blocks++
	a := &s.sections[b.Section]
	a.open = slices.DeleteFunc(a.open, func(m *Match) bool { return s.after(m, b, 0) })
	if s.contextOnly || s.over(b, 0) {
		return
	}
	at := 0
	if b.Begun {
		s.pieces = true
		at = s.rest(a, b)
	}
	for at < len(b.Text) {
		hit := s.finder.candidate(b.Text[at:])
		if hit < 0 {
			break
		}
		start, end, next := b.Bounds(at + hit)
		text := b.Text[start:end]
		if s.unchecked += len(text); s.unchecked > checkBytes {
			if s.unchecked = 0; s.over(b, start) {
				return
			}
		}
		if loc := s.query.Pattern.expr.FindIndex(text); loc != nil {
			s.match(b, start, next, s.matching(b, start, end, loc))
		}
		at = next
	}
	s.remember(a, b)
}

// over reports whether the time is over, and then notes that the block from an offset on is not
// searched.
func (s *seeker) over(b lines.Block, from int) bool {
	if s.ctx.Err() == nil {
		return false
	}
	if at := b.Cursor(from); s.missed < 0 || at < s.missed {
		s.missed = at
	}
	return true
}

// rest searches the first line of a block, which is the rest of a line, together with the end of
// the piece before it. It returns where the next line begins.
func (s *seeker) rest(a *around, b lines.Block) (next int) {
	start, end, next := b.Bounds(0)
	text := slices.Concat(a.piece, b.Text[start:end])
	loc := s.query.Pattern.expr.FindIndex(text)
	switch {
	case loc == nil:
	case loc[0] < len(a.piece):
		s.match(b, start, next, Line{b.Section, a.pieceAt, excerpt(text, loc), s.place(start)})
	default:
		loc[0] -= len(a.piece)
		s.match(b, start, next, s.matching(b, start, end, loc))
	}
	return next
}

// matching returns the line of a block between two offsets, which matches at loc.
func (s *seeker) matching(b lines.Block, start, end int, loc []int) Line {
	at := start
	if loc[0] > farBytes {
		for at += loc[0] - lineMax/3; !utf8.RuneStart(b.Text[at]); at-- {
		}
	}
	return Line{b.Section, b.Cursor(at), excerpt(b.Text[start:end], loc), s.place(start)}
}

// place returns the place of the line that begins at an offset of the current block.
func (s *seeker) place(start int) int64 { return s.blocks<<32 + int64(start) }

// match adds a line of a block that matches and is between two offsets.
func (s *seeker) match(b lines.Block, start, next int, line Line) {
	m := &Match{Line: line}
	i, _ := slices.BinarySearchFunc(s.found, m.At, func(o *Match, at int64) int { return int(min(1, max(-1, o.At-at))) })
	for i < len(s.found) && s.found[i].At == m.At {
		i++
	}
	if i > s.wanted() {
		return
	}
	s.found = slices.Insert(s.found, i, m)
	s.found = s.found[:min(len(s.found), s.wanted()+1)]
	a := &s.sections[b.Section]
	a.matched = b.Open && next == len(b.Text)
	m.Before = s.before(b, start)
	if !s.after(m, b, next) {
		a.open = append(a.open, m)
	}
}

// before returns the lines before the one that begins at an offset.
func (s *seeker) before(b lines.Block, start int) (list []Line) {
	for start > 0 && len(list) < s.query.Context {
		start, _, _ = b.Bounds(start - 1)
		list = append(list, s.lineAt(b, start))
	}
	kept := s.sections[b.Section].before
	for i := len(kept) - 1; i >= 0 && len(list) < s.query.Context; i-- {
		list = append(list, kept[i])
	}
	slices.Reverse(list)
	return list
}

// after adds the lines from an offset on to m.After, and reports whether it is complete.
func (s *seeker) after(m *Match, b lines.Block, at int) bool {
	for at < len(b.Text) && len(m.After) < s.query.Context {
		_, _, next := b.Bounds(at)
		m.After = append(m.After, s.lineAt(b, at))
		at = next
	}
	return len(m.After) == s.query.Context
}

// remember keeps what the next block of a section needs of this one.
func (s *seeker) remember(a *around, b lines.Block) {
	a.before = s.before(b, len(b.Text))
	if a.piece = a.piece[:0]; b.Open && !a.matched {
		start, end, _ := b.Bounds(len(b.Text) - 1)
		a.piece, a.pieceAt = append(a.piece, b.Text[max(start, end-lines.Overlap):end]...), b.Cursor(end-1)
	}
	a.matched = false
}

// lineAt returns the line that begins at an offset.
func (s *seeker) lineAt(b lines.Block, start int) Line {
	_, end, _ := b.Bounds(start)
	return Line{b.Section, b.Cursor(start), excerpt(b.Text[start:end], nil), s.place(start)}
}

// excerpt returns text in lineMax characters: if it is longer, the part around loc, or the
// beginning.
func excerpt(text []byte, loc []int) string {
	if len(text) > lineMax && utf8.RuneCount(text[:min(len(text), lineMax*utf8.UTFMax)]) > lineMax {
		from := 0
		if loc != nil {
			from = max(0, loc[0]-lineMax/3)
		}
		return cut(text, from)
	}
	return string([]rune(string(text))) // U+FFFD for each byte that is not UTF-8, as in every view
}

// cut returns lineMax characters of text from about an offset on, with marks where others are left
// out.
func cut(text []byte, from int) string {
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	part := []rune(string(text[from:min(len(text), from+lineMax*utf8.UTFMax)]))
	before, after := "", ""
	if from > 0 {
		before = "…"
	}
	if len(part) > lineMax-2 {
		part, after = part[:lineMax-2], "…"
	}
	return before + string(part) + after
}
