package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/output"
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

// messageMax bounds a line about progress, in characters.
const messageMax = 200

// Progress describes in one line the state of a job and its last line of output.
func (rp *Reporter) Progress(j *jobs.Job) string {
	info := j.Info()
	s := StatusText(info)
	if info.Cancelling != "" {
		s += ", cancelling: " + string(info.Cancelling)
	}
	if !info.Started.IsZero() {
		s += ", " + rp.elapsed(info)
	}
	if last := lastLine(j.Log()); last != "" {
		s += ": " + last
	}
	return view.Line(s, messageMax)
}

// ProgressOf describes in one line how many jobs have ended, and the progress of the one that wrote
// last.
func (rp *Reporter) ProgressOf(all []*jobs.Job) string {
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
	s := fmt.Sprintf("%d of %d have ended", ended, len(all))
	if newest != nil {
		s += "; " + newest.ID() + " " + rp.Progress(newest)
	}
	return view.Line(s, messageMax)
}

// lastLineBytes is how many bytes at the end of the output are searched for the last line.
const lastLineBytes = 4 << 10

// lastLine returns the last line of output that is not blank, from the stream that was written
// last.
func lastLine(log output.Reader) string {
	end := log.Stat().End
	w := read(log, max(0, end-lastLineBytes), end)
	if len(w.Spans) == 0 {
		return ""
	}
	var b []byte
	for _, s := range w.Spans {
		if s.Section == w.Spans[len(w.Spans)-1].Section {
			b = append(b, s.Data...)
		}
	}
	if w.Cursor > 0 {
		b = b[view.Begin(b, 0):]
	}
	lines := strings.Split(strings.TrimSpace(view.Text(b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// Condition says why a wait for the end of several jobs is over: what has met its condition, or
// that nothing has. every says that all had to end.
func Condition(infos []jobs.Info, every bool) string {
	ended := 0
	var met []string
	for _, info := range infos {
		if info.Asks() {
			met = append(met, "job "+info.ID+" waits for input")
		}
		if info.Status.Final() {
			ended++
			if !every {
				met = append(met, "job "+info.ID+" "+string(info.Status))
			}
		}
	}
	if every && ended == len(infos) {
		return "met: all have ended"
	}
	if len(met) > 0 {
		slices.Sort(met)
		const most = 3
		if len(met) > most {
			met = append(met[:most], fmt.Sprintf("%d more", len(met)-most))
		}
		return "met: " + strings.Join(met, ", ")
	}
	return fmt.Sprintf("not met: %d of %d have ended; call again to wait longer", ended, len(infos))
}
