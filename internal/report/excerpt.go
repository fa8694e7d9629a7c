package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
)

// How much of a log is looked at for one reply. What is drawn over itself can
// take many bytes for few characters, hence more than a reply holds; and not
// more, so that a reply costs the same however long the log is.
const (
	lookHead   = 256 << 10
	lookTail   = 256 << 10
	lookNewest = 8 << 10
)

// torn is how far back from the end of the output an unfinished sequence may
// begin. One that is longer is none, and would hide what comes after it for ever.
const torn = 4 << 10

// The sections of output; a terminal's stands with stdout.
const (
	stdout = iota
	stderr
	sections
)

// An excerpt is what a reply shows of a job's output.
type excerpt struct {
	text    [sections]string
	omitted output.Range // what is left out, gone or not
	gone    int64        // bytes of these that can't be read any more
	loss    output.Loss  // and what took all of the job's that are gone
	late    int64        // bytes that came after the job's end, shown or not
	next    int64        // the cursor to read on from
}

// chars is how many characters the excerpt shows.
func (x *excerpt) chars() int { return chars(x.text[stdout]) + chars(x.text[stderr]) }

// newExcerpt shows what w asks for in at most room characters, or in few where
// room is less than that; nothing where there is no room.
func newExcerpt(log output.Reader, final bool, w Window, room int) excerpt {
	stat := log.Stat()
	x := excerpt{loss: stat.Loss}
	if stat.Final >= 0 {
		x.late = stat.End - stat.Final
	}
	from := min(w.From, stat.End) // a log never shrinks; for callers that don't check
	front, back := int64(lookHead), int64(lookTail)
	budget := view.Budget{Head: room / 2, Max: room}
	if w.Newest && !final {
		front, back = 0, lookNewest
		budget = view.Budget{Max: min(room, newestChars)}
	}

	// Around what is gone, as around what is too long: head, hole, tail.
	headEnd, tailStart := stat.End, from
	for _, g := range stat.Gaps {
		if overlap := min(g.To, stat.End) - max(g.From, from); overlap > 0 {
			x.gone += overlap
			headEnd, tailStart = min(headEnd, max(g.From, from)), max(tailStart, g.To)
		}
	}
	var head, tail view.Window
	if x.gone == 0 && budget.Head > 0 && stat.End-from <= front+back {
		head = read(log, from, stat.End)
		if !final {
			head = whole(head)
		}
		tail.Cursor = head.End()
	} else {
		head = read(log, from, min(headEnd, from+front))
		tail = read(log, max(tailStart, head.End(), stat.End-back), stat.End)
		if !final {
			tail = whole(tail)
		}
	}
	x.next = tail.End()

	if room < 0 {
		x.omitted = output.Range{From: from, To: x.next}
		return x
	}
	if len(head.Spans) == 0 {
		budget.Head = 0 // what is left out lies before all that is shown
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

// lacking tells of which sections the page leaves something out: a traceback
// behind a flood of output is whole.
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

// joined is a section with the hole of a page. It needs no mark where nothing of
// the section is missing, or where only the newest is shown.
func joined(s view.Section, mark bool, what string) string {
	if !mark || s.Head == "" && s.Tail == "" {
		return s.Head + s.Tail
	}
	head := s.Head
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + "[… " + what + " not shown …]\n" + s.Tail
}

// read returns the bytes from..to of the log, less what is lost meanwhile.
func read(log output.Reader, from, to int64) view.Window {
	w := view.Window{Cursor: from}
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

func sectionOf(s output.Stream) int {
	if s == output.Stderr {
		return stderr
	}
	return stdout
}

// whole cuts w back to where no stream is inside a character or an escape
// sequence, so that what a client reads next begins with a whole one. A cut for
// one stream can tear another, which is cut back in turn; where that would hold
// back more than a sequence may be long, none is: it might never end.
func whole(w view.Window) view.Window {
	end := w.End()
	newest := newestOf(w)
	for cut := end; ; {
		at := cut
		for _, s := range newest {
			at = min(at, s.wholeTo(cut))
		}
		switch {
		case at == cut:
			return until(w, cut)
		case end-at > torn:
			return w
		}
		cut = at
	}
}

// A newestPart is what the last bytes of a window have of one section.
type newestPart struct {
	data    []byte
	cursors []int64 // of each piece of it
	lens    []int
}

func newestOf(w view.Window) (parts []newestPart) {
	from := w.End() - torn
	at := w.Cursor
	for _, s := range w.Spans {
		data := s.Data[min(max(0, from-at), int64(len(s.Data))):]
		at += int64(len(s.Data))
		if len(data) > 0 {
			for len(parts) <= s.Section {
				parts = append(parts, newestPart{})
			}
			p := &parts[s.Section]
			p.data = append(p.data, data...)
			p.cursors, p.lens = append(p.cursors, at-int64(len(data))), append(p.lens, len(data))
		}
	}
	return parts
}

// wholeTo returns the last cursor, not behind cut, at which p is not torn.
func (p newestPart) wholeTo(cut int64) int64 {
	n := 0 // bytes before the cut
	for i, cursor := range p.cursors {
		n += int(min(max(0, cut-cursor), int64(p.lens[i])))
	}
	if n < len(p.data) && view.Begin(p.data, n) == n {
		return cut // what follows is known, and begins there
	}
	keep := view.Whole(p.data[:n], false)
	if keep == n {
		return cut
	}
	i := 0
	for ; keep >= p.lens[i]; i++ {
		keep -= p.lens[i]
	}
	return p.cursors[i] + int64(keep)
}

// until returns w up to the cursor end.
func until(w view.Window, end int64) view.Window {
	left := end - w.Cursor
	for i, s := range w.Spans {
		if left <= int64(len(s.Data)) {
			w.Spans = w.Spans[:i:i] // the whole window may still be needed
			if left > 0 {
				w.Spans = append(w.Spans, view.Span{Section: s.Section, Data: s.Data[:left]})
			}
			break
		}
		left -= int64(len(s.Data))
	}
	return w
}

// clip shows text within room characters.
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
