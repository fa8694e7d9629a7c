package report

import (
	"fmt"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/progress"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// A Note is what a client is told of a call that waits.
type Note struct {
	Line        string  // the state, in one line
	Done, Total float64 // of the work, as a progress bar shows it; Total is 0 if none does
}

// noteMax bounds the line of a note, in characters.
const noteMax = 200

// Note describes the state of a job and its last line of output.
func (rp *Reporter) Note(j *jobs.Job) Note {
	info := j.Info()
	s := StatusText(info)
	if info.Cancelling != "" {
		s += ", cancelling: " + string(info.Cancelling)
	}
	if !info.Started.IsZero() {
		s += ", " + rp.elapsed(info)
	}
	tail := progress.TailOf(j.Log())
	if last := tail.Line(); last != "" {
		s += ": " + last
	}
	n := Note{Line: view.Line(s, noteMax)}
	if b, ok := tail.Bar(); ok && info.Status == jobs.Running {
		n.Done, n.Total = b.Done, b.Total
	}
	return n
}

// NoteOf describes how many jobs have ended, and the state of the one that wrote last.
func (rp *Reporter) NoteOf(all []*jobs.Job) Note {
	ended := 0
	var newest *jobs.Job
	var at time.Time
	for _, j := range all {
		info := j.Info()
		if info.Status.Final() {
			ended++
		} else if newest == nil || info.Output.Last.After(at) {
			newest, at = j, info.Output.Last
		}
	}
	n := Note{}
	s := fmt.Sprintf("%d of %d have ended", ended, len(all))
	if newest != nil {
		last := rp.Note(newest)
		s += "; " + newest.ID() + " " + last.Line
		if len(all) == 1 { // the bar of one of several jobs is not that of the wait
			n = last
		}
	}
	n.Line = view.Line(s, noteMax)
	return n
}

// progressBar returns the progress bar of a running job, or nil if it shows none.
func progressBar(info jobs.Info, log output.Reader) *progress.Bar {
	if info.Status != jobs.Running || log == nil {
		return nil
	}
	if b, ok := progress.TailOf(log).Bar(); ok {
		return &b
	}
	return nil
}

// progressLine writes the line about the progress bar of a running job, if it shows one.
func progressLine(r *Reply, info jobs.Info, log output.Reader) {
	if b := progressBar(info, log); b != nil {
		r.Line("Progress", b.String())
	}
}
