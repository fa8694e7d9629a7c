package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// Line describes a job in one line, for lists.
func (rp *Reporter) Line(info jobs.Info) string {
	s := fmt.Sprintf("%s %s, %s", info.ID, StatusText(info), KindText(info))
	if !info.Started.IsZero() {
		s += ", " + rp.elapsed(info)
	}
	s += ": " + info.Title
	if q := info.Question; q != nil && q.Prompt != "" && info.Status == jobs.WaitingInput {
		s += fmt.Sprintf(" (asks %q)", q.Prompt)
	}
	return view.Line(s, lineMax)
}

// Lines describes jobs in one line each, as many as fit into room characters, and returns their
// number.
func (rp *Reporter) Lines(list []jobs.Info, room int) (text string, shown int) {
	var b strings.Builder
	for _, info := range list {
		line := rp.Line(info) + "\n"
		if room -= chars(line); room < 0 {
			break
		}
		b.WriteString(line)
		shown++
	}
	return b.String(), shown
}
