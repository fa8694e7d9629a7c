package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// Line describes a job in one line, for lists.
func (rp *Reporter) Line(record jobs.Record) string {
	s := fmt.Sprintf("%s %s, %s", record.ID, StatusText(record), KindText(record))
	if !record.Started.IsZero() {
		s += ", " + rp.elapsed(record)
	}
	s += ": " + record.Title
	if q := record.Question; q != nil && q.Prompt != "" && record.Status == jobs.WaitingInput {
		s += fmt.Sprintf(" (asks %q)", q.Prompt)
	}
	return view.Line(s, lineMax)
}

// Lines describes jobs in one line each, as many as fit into room characters, and returns their
// number.
func (rp *Reporter) Lines(list []jobs.Record, room int) (text string, shown int) {
	var b strings.Builder
	for _, record := range list {
		line := rp.Line(record) + "\n"
		if room -= chars(line); room < 0 {
			break
		}
		b.WriteString(line)
		shown++
	}
	return b.String(), shown
}
