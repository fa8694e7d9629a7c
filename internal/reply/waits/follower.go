package waits

import (
	"context"
	"slices"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/search"
	"asyncrepl/internal/text/lines"
)

// minRest is the least time between two scans.
const minRest = 10 * time.Millisecond

// A match is a line that matches an expression.
type match struct {
	section  lines.Section
	at, next int64 // the cursors where the line and the next line begin
	text     string
	captures []search.Capture
	stop     bool // the line matches Conditions.Stop
	open     bool // the line has not ended
}

// A follower looks for the first match in a log that grows.
type follower struct {
	log      output.Reader
	scanner  *lines.Scanner
	pattern  *search.Finder // nil if the conditions have no pattern
	stop     *search.Finder
	sections [lines.Sections]section
	rest     time.Duration // how long awaitOutput rests after the last scan
}

// A section is what a follower keeps of one stream.
type section struct {
	match   *match // the first one; its line can't change any more
	piece   []byte // the end of a long line's last piece
	pieceAt int64  // the cursor of that line
}

func newFollower(log output.Reader, c *Conditions) *follower {
	f := &follower{log: log}
	if c.Pattern != nil {
		f.pattern = search.NewFinder(c.Pattern)
	}
	if c.Stop != nil {
		f.stop = search.NewFinder(c.Stop)
	}
	f.scanner = lines.NewScanner(log, c.From, f.block)
	return f
}

// scan reads what the log has now, unless ctx ends, and returns the first match.
func (f *follower) scan(ctx context.Context) *match {
	end := f.log.Stat().End // later output is for the next scan: a flood would keep this one going
	for ctx.Err() == nil && f.scanner.Read(end) {
		if m := f.first(nil); m != nil && m.at < f.scanner.Passed() {
			return m
		}
	}
	begin := time.Now()
	var changing []*match
	f.scanner.Pending(func(b lines.Block) {
		if s := &f.sections[b.Section]; s.match == nil {
			if m := f.find(s, b); m != nil {
				if m.next < 0 {
					m.next = f.scanner.End(m.section)
				}
				changing = append(changing, m)
			}
		}
	})
	f.rest = max(minRest, 4*time.Since(begin)) // each scan searches the last line again
	return f.first(changing)
}

// first returns the match that begins first among the sections' matches and others.
func (f *follower) first(others []*match) *match {
	var by [lines.Sections]*match
	for _, m := range others {
		by[m.section] = m
	}
	var first *match
	for i := range f.sections {
		if m := f.sections[i].match; m != nil {
			by[i] = m
		}
		if by[i] != nil && (first == nil || by[i].at < first.at) {
			first = by[i]
		}
	}
	if first == nil {
		return nil
	}
	if first.next < 0 {
		first.next = f.scanner.Begin(first.section)
	}
	for i, m := range by { // a wait that continues must not miss what other sections have after it
		at := f.scanner.Begin(lines.Section(i))
		if m != nil {
			at = m.at
		}
		if at > first.at {
			first.next = min(first.next, at)
		}
	}
	return first
}

// block checks a block whose lines can't change any more.
func (f *follower) block(b lines.Block) {
	s := &f.sections[b.Section]
	if s.match != nil {
		if s.match.next < 0 {
			s.match.next = b.Cursor(0)
		}
		return
	}
	if s.match = f.find(s, b); s.match != nil {
		s.match.open = false // or part of a line that is too long to wait for all of it
	}
	if b.Open {
		start, end, _ := b.Bounds(len(b.Text) - 1)
		if !b.Begun || start > 0 {
			s.pieceAt = b.Cursor(start)
		}
		s.piece = append(s.piece[:0], b.Text[max(start, end-lines.Overlap):end]...)
	}
}

// find returns the first match in a block. A line that matches both expressions is one to stop at.
func (f *follower) find(s *section, b lines.Block) *match {
	m := findWith(f.pattern, s, b)
	if stop := findWith(f.stop, s, b); stop != nil && (m == nil || stop.at <= m.at) {
		stop.stop = true
		return stop
	}
	return m
}

// findWith returns the first match of one expression in a block. The cursor after it is -1 if it is
// not in the block.
func findWith(finder *search.Finder, s *section, b lines.Block) *match {
	if finder == nil {
		return nil
	}
	for at := 0; ; {
		start, end, next, ok := finder.Candidate(b, at)
		if at == 0 && b.Begun { // the line can match together with the end of the piece before it
			start, end, next = b.Bounds(0)
			ok = true
		}
		if !ok {
			return nil
		}
		line, cursor := b.Text[start:end], b.Cursor(start)
		if start == 0 && b.Begun {
			line, cursor = slices.Concat(s.piece, line), s.pieceAt
		}
		if text, captures, ok := finder.Match(line); ok {
			m := &match{section: b.Section, at: cursor, next: -1, text: text, captures: captures}
			if next < len(b.Text) {
				m.next = b.Cursor(next)
			} else {
				m.open = b.Text[next-1] != '\n'
			}
			return m
		}
		at = next
	}
}
