package search

import (
	"bytes"
	"strconv"

	"asyncrepl/internal/text/lines"
)

// A Finder looks for a pattern in text that comes block by block. It must not be used by several
// goroutines at once.
type Finder struct {
	pattern *Pattern
	filter  *filter // used if the pattern has no literal; nil if every line can match
}

// NewFinder returns a Finder of a pattern.
func NewFinder(p *Pattern) *Finder {
	f := &Finder{pattern: p}
	if p.literal == nil {
		f.filter = newFilter(p.tree)
	}
	return f
}

// A Capture is what a group of a pattern has matched.
type Capture struct {
	Name string // the name of the group, or its number
	Text string
}

// Candidate finds the first line that can match, in a block from an offset on. It returns where the
// line begins and ends, and where the next line begins. It reports false if no line can match.
func (f *Finder) Candidate(b lines.Block, from int) (start, end, next int, ok bool) {
	if from >= len(b.Text) {
		return 0, 0, 0, false
	}
	hit := f.candidate(b.Text[from:])
	if hit < 0 {
		return 0, 0, 0, false
	}
	start, end, next = b.Bounds(from + hit)
	return start, end, next, true
}

// Match reports whether a line matches. It returns the line, shortened around the match if it is
// long, and the groups that took part in the match.
func (f *Finder) Match(line []byte) (text string, captures []Capture, ok bool) {
	expr := f.pattern.expr
	if !expr.Match(line) { // Match is faster than FindSubmatchIndex
		return "", nil, false
	}
	loc := expr.FindSubmatchIndex(line)
	for i, name := range expr.SubexpNames() {
		from, to := loc[2*i], loc[2*i+1]
		if i == 0 || from < 0 {
			continue
		}
		if name == "" {
			name = strconv.Itoa(i)
		}
		captures = append(captures, Capture{name, excerpt(line[from:to], nil)})
	}
	return excerpt(line, loc[:2]), captures, true
}

// candidate returns the offset of a byte of the first line of text that can match, or -1.
func (f *Finder) candidate(text []byte) int {
	switch {
	case f.pattern.literal != nil:
		return bytes.Index(text, f.pattern.literal)
	case f.filter != nil:
		return f.filter.candidate(text)
	}
	return 0
}
