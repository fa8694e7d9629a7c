package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/findings"
	"asyncrepl/internal/text/view"
)

// A Part selects which part of a job's output a reply shows if not all of it fits.
type Part int

// The parts.
const (
	Ends    Part = iota // the beginning and the end
	Newest              // the newest output while the job runs, both ends afterwards
	Forward             // the beginning; the rest can be read from the reply's cursor
)

// How many bytes of a log one reply reads from each end. A program that draws over its own output
// can write many bytes for few characters, so this is more than a reply holds. It is bounded so
// that a reply costs the same however long the log is.
const (
	endBytes    = 256 << 10
	newestBytes = 8 << 10 // for a running job; more if a reply has room for over 2,000 characters
)

// First errors take this share of a page, and no room that is too small for one.
const (
	errorsShare = 4
	leastErrors = 40 // characters
)

// The sections of output. Terminal output and the lines of displays are shown as stdout.
const (
	stdout = iota
	stderr
	result
	sections
)

// sectionNames are the names of the sections in replies.
var sectionNames = [sections]string{"STDOUT", "STDERR", "RESULT"}

func sectionOf(s output.Stream) int {
	switch s {
	case output.Stderr:
		return stderr
	case output.Result:
		return result
	}
	return stdout
}

// An excerpt is the part of a job's output that a reply shows.
type excerpt struct {
	text    [sections]string
	omitted []output.Range // the bytes that are not shown, whether they still exist or not
	gone    int64          // omitted bytes that can't be read any more
	errors  int            // lines of the omitted bytes that are shown as first errors
	loss    output.Loss    // the causes for which the complete log lacks bytes
	late    int64          // bytes written after the job's end, whether shown or not
	from    int64          // the cursor asked for, or a later one up to which output was replaced
	cleared output.Range   // the bytes that were asked for and have been replaced
	next    int64          // the cursor to continue from
}

// shows reports whether the byte at a cursor is shown.
func (x *excerpt) shows(at int64) bool {
	return x.from <= at && at < x.next && !slices.ContainsFunc(x.omitted, func(o output.Range) bool { return o.From <= at && at < o.To })
}

// newExcerpt takes the output that w selects in about room characters: not many more, and at least
// one if there is any. final reports whether the job had ended before the log is read.
func newExcerpt(log output.Reader, final bool, w Window, room int) excerpt {
	stat := log.Stat()
	room = max(room, 1)
	from := min(w.From, stat.End) // not every caller checks From; a log never shrinks
	cleared := output.Range{From: from, To: from}
	if w.View != RawView {
		from = max(from, min(w.cleared, stat.End))
		cleared.To = from
	}
	x := excerpt{loss: stat.Loss, from: from, cleared: cleared, next: stat.End}
	if stat.Final >= 0 {
		x.late = stat.End - stat.Final
	}
	if w.screen != nil {
		x.beforeScreen(log, stat, w, from, room)
		return x
	}
	if w.lines > 0 {
		start := lastLines(log, from, stat.End, w.lines)
		x.omit(from, start)
		from = start
	}
	newest := w.Part == Newest && !final
	if newest && w.NewestMax > 0 {
		room = min(room, w.NewestMax)
	}
	if w.Part == Forward {
		x.forward(log, stat, final, from, room, w.View == RawView)
	} else {
		if w.View == RawView {
			w.errors = nil
		}
		x.ends(log, stat, final, from, view.Budget{Head: (room + 1) / 2, Max: room, Raw: w.View == RawView}, newest, w.errors)
	}
	x.countGone(stat)
	return x
}

// beforeScreen takes the output before the screen that the reply shows. Only the reply to the call
// that started the job has that output; other replies leave it out.
func (x *excerpt) beforeScreen(log output.Reader, stat output.Stat, w Window, from int64, room int) {
	stat.End = max(from, min(stat.End, w.screen.start))
	if w.Part == Ends {
		x.ends(log, stat, true, from, view.Budget{Head: (room + 1) / 2, Max: room}, false, nil)
	} else {
		x.omit(from, stat.End)
	}
	x.countGone(stat)
	x.next = w.screen.end
}

// countGone counts the omitted bytes that can't be read any more.
func (x *excerpt) countGone(stat output.Stat) {
	for _, o := range x.omitted {
		for _, g := range stat.Gaps {
			x.gone += max(0, min(g.To, o.To)-max(g.From, o.From))
		}
	}
}

// lastLines returns the cursor at which the last n lines of a log begin, from or a later one. If
// they are longer than newestBytes, it returns a cursor inside them.
func lastLines(log output.Reader, from, end int64, n int) int64 {
	start := max(from, end-newestBytes)
	var text []byte
	for _, span := range read(log, start, end).Spans {
		text = append(text, span.Data...)
	}
	at := len(bytes.TrimRight(text, "\r\n"))
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	if at < 0 {
		return start
	}
	return end - int64(len(text)-at-1)
}

// forward takes as much as fits from a cursor on. If the bytes there are gone, it begins after
// them.
func (x *excerpt) forward(log output.Reader, stat output.Stat, final bool, from int64, room int, raw bool) {
	s := read(log, from, min(from+2*endBytes, stat.End))
	if s.Cursor > from { // there was a gap at from
		s = read(log, s.Cursor, min(s.Cursor+2*endBytes, stat.End))
	}
	x.omit(from, s.Cursor)
	s = begun(log, s, x.cleared.To)
	end := s.End()
	if end == s.Cursor+2*endBytes || end == stat.End && !final {
		s = s.Complete() // not where a gap begins: the rest of a character can't be read there
	}
	page := view.Clip(s, view.Stretch{}, view.Budget{Head: room, Max: room, Raw: raw})
	x.next = s.End() - page.Omitted()
	if end < stat.End || page.Omitted() > 0 {
		x.omit(x.next, stat.End)
	}
	for i, section := range page.Sections {
		x.text[i] = section.Head
	}
}

// ends takes the beginning and the end of the output from a cursor on, or only its newest.
func (x *excerpt) ends(log output.Reader, stat output.Stat, final bool, from int64, budget view.Budget, newest bool, errors *findings.Collector) {
	front, back := int64(endBytes), int64(endBytes)
	if newest {
		budget.Head = 0
		front, back = 0, max(newestBytes, 4*int64(budget.Max))
	}
	head, tail := readEnds(log, stat, final, from, front, back)
	head = begun(log, head, x.cleared.To)
	x.next = tail.End()
	if len(head.Spans) == 0 {
		budget.Head = 0 // everything omitted comes before everything shown
	}
	page := view.Clip(head, tail, budget)
	if len(head.Spans) == 0 {
		page.From = min(from, page.To)
	}
	x.omit(page.From, page.To)
	var found [sections]string
	if room := budget.Max / errorsShare; errors != nil && budget.Head > 0 && page.Omitted() > 0 && room >= leastErrors {
		found, x.errors = errorLines(errors.From(from), page, room)
	}
	lacks := lacking(log, page)
	for i, s := range page.Sections {
		x.text[i] = joined(s, budget.Head > 0 && lacks[i], fmt.Sprintf("cursor %d..%d", page.From, page.To), found[i])
	}
}

// errorLines returns the lines of the errors that begin in what a page omits, by section, as many
// as room has characters for. It also returns how many these are.
func errorLines(list []findings.Finding, page view.Page, room int) (text [sections]string, n int) {
	for _, each := range list {
		if each.At < page.From || each.At >= page.To {
			continue
		}
		line := fmt.Sprintf("[cursor %d] %s\n", each.At, each.Text)
		if room -= chars(line); room < 0 {
			break
		}
		text[each.Section] += line
		n++
	}
	return text, n
}

// omit adds to the omitted bytes.
func (x *excerpt) omit(from, to int64) {
	if to > from {
		x.omitted = append(x.omitted, output.Range{From: from, To: to})
	}
}

// readEnds returns the first front and the last back bytes of the log from a cursor on. If these
// are all there is, all of it is head, and tail is empty and begins at its end. Bytes that are
// gone, or too many, are between head and tail.
func readEnds(log output.Reader, stat output.Stat, final bool, from, front, back int64) (head, tail view.Stretch) {
	headEnd, tailStart, whole := stat.End, from, true
	for _, g := range stat.Gaps {
		if min(g.To, stat.End) > max(g.From, from) {
			headEnd, tailStart, whole = min(headEnd, max(g.From, from)), max(tailStart, g.To), false
		}
	}
	if whole && front > 0 && stat.End-from <= front+back {
		head = read(log, from, stat.End)
		if !final {
			head = head.Complete()
		}
		return head, view.Stretch{Cursor: head.End()}
	}
	head = read(log, from, min(headEnd, from+front))
	tail = read(log, max(tailStart, head.End(), stat.End-back), stat.End)
	if !final {
		tail = tail.Complete()
	}
	return head, tail
}

// lacking reports for each section whether the page omits some of it. A traceback after a flood of
// output is complete, and then needs no mark.
func lacking(log output.Reader, page view.Page) (lacks [sections]bool) {
	if page.Omitted() == 0 {
		return lacks
	}
	set := log.Streams(page.From, page.To)
	for _, s := range []output.Stream{output.Stdout, output.Stderr, output.TTY, output.Result, output.Display} {
		if set.Has(s) {
			lacks[sectionOf(s)] = true
		}
	}
	return lacks
}

// joined returns a section with a mark at the place of the omission, and after it the lines of
// errors found there. The mark has a separate line unless a line is cut there.
func joined(s view.Section, mark bool, missing, errors string) string {
	if !mark || s.Head == "" && s.Tail == "" && errors == "" {
		return s.Head + s.Tail
	}
	text := s.Head + "[… " + missing + " not shown …]"
	if s.Head == "" || strings.HasSuffix(s.Head, "\n") || errors != "" {
		text += "\n"
	}
	return text + errors + s.Tail
}

// begun returns s with the beginning of its first line, if a program draws over that. What stands
// before the cursor first was replaced.
func begun(log output.Reader, s view.Stretch, first int64) view.Stretch {
	if s.Cursor <= first || len(s.Spans) == 0 {
		return s
	}
	return s.After(read(log, max(first, s.Cursor-view.LineBytes), s.Cursor))
}

// read returns the bytes from..to of the log, without those that are lost while it reads.
func read(log output.Reader, from, to int64) view.Stretch {
	w := view.Stretch{Cursor: from}
	for at := from; at < to; {
		c := log.Read(at, int(to-at))
		if c.Dropped > 0 && at == from {
			w.Cursor = c.From
		}
		if c.Next == c.From || c.Dropped > 0 && at > from {
			break
		}
		for _, s := range c.Spans {
			w.Spans = append(w.Spans, view.Span{Section: sectionOf(s.Stream), Data: s.Data})
		}
		at = c.Next
	}
	return w
}
