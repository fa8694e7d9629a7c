package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
)

// How many bytes of a log one reply reads. A program that draws over its own output can write many
// bytes for few characters, so this is more than a reply holds. It is bounded so that a reply costs
// the same however long the log is.
const (
	headBytes   = 256 << 10
	tailBytes   = 256 << 10
	newestBytes = 8 << 10 // of a running job, if no cursor is given
)

// The sections of output. Terminal output is shown as stdout.
const (
	stdout = iota
	stderr
	sections
)

// An excerpt is the part of a job's output that a reply shows.
type excerpt struct {
	text    [sections]string
	omitted output.Range // bytes that are not shown, whether they still exist or not
	gone    int64        // omitted bytes that can't be read any more
	loss    output.Loss  // the causes for which the complete log lacks bytes
	late    int64        // bytes written after the job's end, whether shown or not
	next    int64        // the cursor to continue from
}

// chars returns how many characters the excerpt shows.
func (x *excerpt) chars() int { return chars(x.text[stdout]) + chars(x.text[stderr]) }

// newExcerpt takes the output that w selects in about room characters: never much more, and nothing
// if room is negative. final reports whether the job had ended before the log is read.
func newExcerpt(log output.Reader, final bool, w Window, room int) excerpt {
	stat := log.Stat()
	x := excerpt{loss: stat.Loss}
	if stat.Final >= 0 {
		x.late = stat.End - stat.Final
	}
	from := min(w.From, stat.End) // for callers that don't check; a log never shrinks
	front, back := int64(headBytes), int64(tailBytes)
	budget := view.Budget{Head: room / 2, Max: room}
	if w.Newest && !final {
		front, back = 0, newestBytes
		budget = view.Budget{Max: min(room, newestChars)}
	}
	head, tail := x.read(log, stat, final, from, front, back, budget.Head)
	x.next = tail.End()
	if room < 0 {
		x.omitted = output.Range{From: from, To: x.next}
		return x
	}
	if len(head.Spans) == 0 {
		budget.Head = 0 // everything omitted comes before everything shown
	}
	page := view.Clip(head, tail, budget)
	if x.omitted = (output.Range{From: page.From, To: page.To}); len(head.Spans) == 0 {
		x.omitted.From = min(from, x.omitted.To)
	}
	lacks := lacking(log, page)
	for i, s := range page.Sections {
		x.text[i] = s.Head
		if page.Omitted() > 0 {
			x.text[i] = joined(s, budget.Head > 0 && lacks[i], fmt.Sprintf("cursor %d..%d", page.From, page.To))
		}
	}
	return x
}

// read returns the first front and the last back bytes of the log from a cursor on. If these are
// all there is and headRoom allows it, all of it is head and tail is empty, at its end. It counts
// the bytes that are gone; like bytes that are too many, they are omitted between head and tail.
func (x *excerpt) read(log output.Reader, stat output.Stat, final bool, from, front, back int64, headRoom int) (head, tail view.Window) {
	headEnd, tailStart := stat.End, from
	for _, g := range stat.Gaps {
		if overlap := min(g.To, stat.End) - max(g.From, from); overlap > 0 {
			x.gone += overlap
			headEnd, tailStart = min(headEnd, max(g.From, from)), max(tailStart, g.To)
		}
	}
	if x.gone == 0 && headRoom > 0 && stat.End-from <= front+back {
		head = read(log, from, stat.End)
		if !final {
			head = complete(head)
		}
		tail.Cursor = head.End()
		return head, tail
	}
	head = read(log, from, min(headEnd, from+front))
	tail = read(log, max(tailStart, head.End(), stat.End-back), stat.End)
	if !final {
		tail = complete(tail)
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
	for _, s := range []output.Stream{output.Stdout, output.Stderr, output.TTY} {
		if set.Has(s) {
			lacks[sectionOf(s)] = true
		}
	}
	return lacks
}

// joined returns a section with a mark at the place of the omission. No mark is needed if nothing
// of the section is missing, or if only the newest output is shown.
func joined(s view.Section, mark bool, missing string) string {
	if !mark || s.Head == "" && s.Tail == "" {
		return s.Head + s.Tail
	}
	head := s.Head
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + "[… " + missing + " not shown …]\n" + s.Tail
}

// clip shows text in at most room characters.
func clip(text string, room int) string {
	w := view.Window{Spans: []view.Span{{Data: []byte(text)}}}
	page := view.Clip(view.Window{}, w, view.Budget{Head: room / 2, Max: room})
	if len(page.Sections) == 0 {
		return ""
	}
	if page.Omitted() == 0 {
		return page.Sections[0].Head + page.Sections[0].Tail
	}
	return joined(page.Sections[0], true, view.Count(page.Omitted())+" bytes")
}
