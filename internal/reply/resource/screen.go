package resource

import (
	"strings"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/screen"
	"asyncrepl/jobs"
)

// A Screen says what the rows of a terminal do not show. Rows and columns are counted from 1.
type Screen struct {
	Rows       int    `json:"rows"`
	Columns    int    `json:"columns"`
	Row        int    `json:"cursor_row"`
	Column     int    `json:"cursor_column"`
	Hidden     bool   `json:"cursor_hidden,omitempty"`
	Incomplete bool   `json:"incomplete,omitempty"` // the screen can lack what was drawn long ago
	End        int64  `json:"end"`                  // bytes written when the screen was drawn
	Status     string `json:"status"`               // the job's status
}

// readScreen returns what the terminal of a job shows now: its rows, each with a newline.
func (r Request) readScreen(j *jobs.Job) ([]Content, error) {
	record := j.Record()
	if why := report.NoScreen(record); why != "" {
		return nil, report.Mistakef("%s", why)
	}
	s, err := screen.OfLog(j.Log(), record.Terminal.Rows, record.Terminal.Cols)
	if err != nil {
		return nil, report.Mistakef("Job %s: %v.", j.ID(), err)
	}
	text := strings.Join(s.Rows, "\n")
	if text != "" {
		text += "\n"
	}
	about := Screen{
		Rows: s.Size.Rows, Columns: s.Size.Cols, Row: s.Row, Column: s.Col, Hidden: s.Hidden, Incomplete: !s.Whole,
		End: s.End, Status: string(record.Status),
	}
	return []Content{{URI: r.uri, MIMEType: "text/plain", Text: &text, Meta: map[string]any{OutputMeta: about}}}, nil
}
