package report

import (
	"fmt"

	"asyncrepl/internal/text/screen"
	"asyncrepl/jobs"
)

// The views of output.
const (
	TextView   = "text"
	ScreenView = "screen"
	RawView    = "raw"
)

// NoScreen says why a job has no screen to show, and what to use instead. It returns the empty string
// if the job has one.
func NoScreen(record jobs.Record) string {
	switch {
	case record.Terminal != nil:
		return ""
	case record.Kind == jobs.Python:
		return fmt.Sprintf("Job %s is a Python job, which has no screen. Use view=text.", record.ID)
	case record.Started.IsZero() && !record.Status.Final():
		return fmt.Sprintf("Job %s has not started and has no screen yet. Use view=text.", record.ID)
	}
	return fmt.Sprintf("Job %s has no terminal, so there is no screen. Use view=text.", record.ID)
}

// The names of the sections that show a screen.
const (
	allRows     = "SCREEN"
	changedRows = "SCREEN ROWS CHANGED" // each with its number
)

// A screenShown is the screen of a job as a reply shows it.
type screenShown struct {
	line, name, text string
	start, end       int64 // the output that it stands for
}

// takeScreen returns the screen that the reply shows in place of output, or nil. head is what precedes
// it in the reply.
func takeScreen(head *Reply, j *jobs.Job, record jobs.Record, w Window) *screenShown {
	if record.Terminal == nil {
		return nil
	}
	rows, cols := record.Terminal.Rows, record.Terminal.Cols
	var s screen.Snapshot
	switch {
	case w.View == ScreenView:
		var err error
		if s, err = screen.OfLog(j.Log(), rows, cols); err != nil {
			return &screenShown{line: err.Error(), start: w.From, end: s.End}
		}
		s.Start = w.From // the text before is no part of the view
	case w.View == "" && (record.Status == jobs.WaitingInput || record.Accepts != (jobs.Reader{})):
		var ok bool
		s, ok = screen.OfFullScreen(j.Log(), rows, cols)
		if !ok || w.Part == Forward && w.From < s.Start { // a page of text that comes before
			return nil
		}
	default:
		return nil
	}
	room := w.MaxChars
	if w.MaxChars >= smallReply {
		room = max(leastRoom, w.MaxChars-head.Chars()-usualRest-leastRoom)
	}
	text, shown := s.Text(room)
	all := &screenShown{line: s.Describe(shown), name: allRows, text: text, start: s.Start, end: s.End}
	if shown < len(s.Rows) || w.Notices == nil {
		return all
	}
	last := w.Notices.screen(record.ID, s)
	if !w.Changes || last == nil {
		return all
	}
	changed, ok := s.Changes(*last)
	if !ok {
		return all
	}
	since := "; only the rows that changed since cursor %d are shown"
	if changed == "" {
		since = "; no text has changed since cursor %d"
	}
	return &screenShown{line: all.line + fmt.Sprintf(since, last.End), name: changedRows, text: changed, start: s.Start, end: s.End}
}
