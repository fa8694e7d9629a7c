package report

import (
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// Line shows a job in one line of a list.
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

// Lines shows jobs, a line each, as far as there is room for them, in
// characters, and returns how many these are.
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

// messageMax is how many characters one line about progress has.
const messageMax = 200

// Progress says in one line how a job stands.
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

// ProgressOf says how several jobs stand, and what the one that wrote last wrote.
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

// lastLineLook is how many bytes are looked at for a job's last line.
const lastLineLook = 4 << 10

// lastLine is the last line of output that is not blank, of the stream that was
// written to last.
func lastLine(log output.Reader) string {
	end := log.Stat().End
	w := read(log, max(0, end-lastLineLook), end)
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
