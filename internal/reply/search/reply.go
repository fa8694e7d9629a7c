package search

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/lines"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// headMax is the room for the header lines of a reply, in characters.
const headMax = 1000

// Reply returns the reply about a search in the output of a job, in room characters, with the
// events of other jobs. If the matches don't fit, it says where to continue.
func (r Result) Reply(rp *report.Reporter, record jobs.Record, live jobs.Live, also []string, room int) *report.Reply {
	var text strings.Builder
	w := &writer{}
	shown := 0
	for shown < len(r.Matches) {
		n := alike(r.Matches[shown:])
		var group strings.Builder
		for i := range n {
			w.group(&group, r.Matches[shown+i:])
		}
		if shown > 0 && utf8.RuneCountInString(text.String())+utf8.RuneCountInString(group.String()) > room-headMax {
			break
		}
		text.WriteString(group.String())
		shown += n
	}
	if shown < len(r.Matches) {
		r.Next, r.Late = r.Matches[shown].At, false
		r.To = r.Next
	}
	reply := &report.Reply{}
	reply.Line("Job ID", record.ID)
	reply.Line("Status", report.StatusText(record))
	rp.Place(reply, record, live)
	count := "none"
	switch more := r.Next >= 0 && !r.Late; {
	case more:
		count = view.Count(shown) + ", and more follow"
	case shown > 0:
		count = view.Count(shown)
	}
	reply.Line("Matches", count)
	reply.Line("Searched", r.searched(record.Output))
	if r.Pieces {
		reply.Line("Note", "a line of more than 1 MiB was searched in pieces, at whose ends ^ and $ match")
	}
	if r.Next >= 0 {
		reply.Line("Next", fmt.Sprintf("search_job_output(job_id=…, pattern=…, cursor=%d)", r.Next))
	}
	reply.Also(also)
	if shown > 0 {
		reply.Body(text.String())
	}
	return reply
}

// searched says which part of the output was searched, and why not all of it.
func (r Result) searched(stat output.Stat) string {
	size, gone := r.To-r.From, int64(0)
	var gaps []string
	for _, g := range r.Dropped {
		if n := min(g.To, r.To) - max(g.From, r.From); n > 0 {
			gone += n
			gaps = append(gaps, fmt.Sprintf("%d..%d", g.From, g.To))
		}
	}
	s := fmt.Sprintf("%s (cursor %d..%d)", view.CountOf(size-gone, "byte"), r.From, r.To)
	if gone > 0 {
		s += fmt.Sprintf(", without %s (cursor %s) that can't be read any more: %s", view.CountOf(gone, "byte"), strings.Join(gaps, ", "), report.Causes(stat.Loss))
	}
	if r.Late {
		s += ", as far as the time allowed"
	}
	return s
}

// A writer writes matches in the order of their cursors, each line once.
type writer struct {
	written [lines.Sections]int64 // the first place of a line after the last one
}

// alike returns how many of some matches, from the first on, share its cursor: they are shown or
// left to the next search together.
func alike(ms []*Match) int {
	n := 1
	for n < len(ms) && ms[n].At == ms[0].At {
		n++
	}
	return n
}

// group writes the lines of the first of some matches and around it, without lines that were
// written before, or will be with the next match. A mark before it stands for lines left out.
func (w *writer) group(b *strings.Builder, ms []*Match) {
	m := ms[0]
	if older := len(m.Before) > 0 && w.has(m.Before[0]); !older && len(m.Before) > 0 && w.written != ([lines.Sections]int64{}) {
		b.WriteString("--\n")
	}
	for _, l := range m.Before {
		w.line(b, l, '-')
	}
	w.line(b, m.Line, ':')
	for _, l := range m.After {
		if len(ms) == 1 || ms[1].Section != l.Section || l.place < ms[1].place {
			w.line(b, l, '-')
		}
	}
}

// has reports whether a line was written.
func (w *writer) has(l Line) bool { return l.place < w.written[l.Section] }

// line writes a line unless it was written before.
func (w *writer) line(b *strings.Builder, l Line, mark byte) {
	if w.has(l) {
		return
	}
	w.written[l.Section] = l.place + 1
	l.write(b, mark)
}

// write writes the line with its section and cursor, and a mark that says whether it matches.
func (l Line) write(b *strings.Builder, mark byte) {
	b.WriteString(l.Section.String() + " " + strconv.FormatInt(l.At, 10))
	b.WriteByte(mark)
	b.WriteString(" " + l.Text + "\n")
}
