package search

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"asyncrepl/internal/lines"
	"asyncrepl/internal/output"
	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// headMax is the room for the header lines of a reply, in characters.
const headMax = 1000

// Reply returns the reply about a search in the output of a job, in room characters, with the events
// of other jobs. If the matches don't fit, it says where to continue.
func (r Result) Reply(info jobs.Info, also []string, room int) *report.Reply {
	var text strings.Builder
	w := &writer{}
	shown := 0
	for i := range r.Matches {
		group := w.group(r.Matches[i:])
		if shown > 0 && utf8.RuneCountInString(text.String())+utf8.RuneCountInString(group) > room-headMax {
			break
		}
		text.WriteString(group)
		shown++
	}
	if shown < len(r.Matches) {
		r.Next, r.Late = r.Matches[shown].At, false
		r.To = r.Next
	}
	reply := &report.Reply{}
	reply.Line("Job ID", info.ID)
	reply.Line("Status", report.StatusText(info))
	count := "none"
	switch more := r.Next >= 0 && !r.Late; {
	case more:
		count = view.Count(shown) + ", and more follow"
	case shown > 0:
		count = view.Count(shown)
	}
	reply.Line("Matches", count)
	reply.Line("Searched", r.searched(info.Output))
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
	written [lines.Sections]int64 // where the line after the last one can begin
}

// group returns the lines of the first of some matches and around it, without those that were
// written before, or will be with the next match. A mark before it stands for lines left out.
func (w *writer) group(ms []*Match) string {
	var b strings.Builder
	m := ms[0]
	if older := len(m.Before) > 0 && w.has(m.Before[0]); !older && len(m.Before) > 0 && w.written != ([lines.Sections]int64{}) {
		b.WriteString("--\n")
	}
	for _, l := range m.Before {
		w.line(&b, l, '-')
	}
	w.line(&b, m.Line, ':')
	for _, l := range m.After {
		if len(ms) == 1 || ms[1].Section != l.Section || l.At < ms[1].At {
			w.line(&b, l, '-')
		}
	}
	return b.String()
}

// has reports whether a line was written.
func (w *writer) has(l Line) bool { return l.At < w.written[l.Section] }

// line writes a line unless it was written before.
func (w *writer) line(b *strings.Builder, l Line, mark byte) {
	if w.has(l) {
		return
	}
	w.written[l.Section] = l.At + 1
	b.WriteString(l.Section.String() + " " + strconv.FormatInt(l.At, 10))
	b.WriteByte(mark)
	b.WriteString(" " + l.Text + "\n")
}
