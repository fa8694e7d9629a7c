package delivery

import (
	"fmt"
	"time"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/progress"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A Note is the state of a call that waits, for its progress notification.
type Note struct {
	Line        string  // the state, in one line
	Done, Total float64 // the work, as a progress bar shows it; Total is 0 if no bar does
}

// noteMax bounds the line of a note, in characters.
const noteMax = 200

// NoteOf returns the state of a job and its last line of output.
func NoteOf(j *jobs.Job) Note {
	record := j.Record()
	s := report.StatusText(record)
	if record.Cancelling != "" {
		s += ", cancelling: " + string(record.Cancelling)
	}
	if !record.Started.IsZero() {
		end := record.Ended
		if end.IsZero() {
			end = time.Now()
		}
		s += ", " + report.Duration(end.Sub(record.Started))
	}
	tail := progress.TailOf(j.Log(), record.Cleared, time.Now())
	if last := tail.Line(); last != "" {
		s += ": " + last
	}
	n := Note{Line: view.Line(s, noteMax)}
	if b, ok := tail.Bar(); ok && record.Status == jobs.Running {
		n.Done, n.Total = b.Done, b.Total
	}
	return n
}

// NoteOfAll returns how many jobs have ended, and the state of the one that wrote last.
func NoteOfAll(all []*jobs.Job) Note {
	ended := 0
	var newest *jobs.Job
	var at time.Time
	for _, j := range all {
		record := j.Record()
		if record.Status.Final() {
			ended++
		} else if newest == nil || record.Output.Last.After(at) {
			newest, at = j, record.Output.Last
		}
	}
	n := Note{}
	s := fmt.Sprintf("%d of %d have ended", ended, len(all))
	if newest != nil {
		last := NoteOf(newest)
		s += "; " + newest.ID() + " " + last.Line
		if len(all) == 1 { // one of several jobs says nothing about the progress of the wait
			n = last
		}
	}
	n.Line = view.Line(s, noteMax)
	return n
}
