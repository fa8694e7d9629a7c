package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// alsoMax bounds the Also line, in bytes. Jobs that don't fit are only counted.
const alsoMax = 220

// Also writes the line that announces other jobs, if there are any.
func (r *Reply) Also(list []jobs.Info) {
	var s strings.Builder
	for i, info := range list {
		what := "waits for input"
		if info.Status.Final() {
			what = view.Line(StatusText(info), 60)
		}
		item := fmt.Sprintf("job %s %s", info.ID, what)
		if i > 0 {
			if s.Len()+len(item) > alsoMax {
				fmt.Fprintf(&s, "; %d more: see list_jobs", len(list)-i)
				break
			}
			s.WriteString("; ")
		}
		s.WriteString(item)
	}
	if len(list) > 0 {
		r.Line("Also", s.String())
	}
}
