package report

import (
	"fmt"
	"strings"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// commandMax bounds the command or code of a job in a list, in characters.
const commandMax = 60

// Line describes a job in one line, for lists.
func (rp *Reporter) Line(record jobs.Record) string {
	s := rp.brief(record) + ": " + view.Line(record.Title, commandMax)
	if q := record.Question; q != nil && q.Prompt != "" && record.Status == jobs.WaitingInput {
		s += fmt.Sprintf(" (asks %q)", q.Prompt)
	}
	return view.Line(s, lineMax)
}

// brief describes a job in one line without its command.
func (rp *Reporter) brief(record jobs.Record) string {
	s := fmt.Sprintf("%s %s, %s", record.ID, StatusText(record), KindText(record))
	if rp.isPast(record) {
		s += ", past"
	}
	if hasElapsed(record) {
		s += ", " + rp.elapsed(record)
	}
	if text := rp.lost(record); text != "" {
		s += ", " + text
	}
	return s
}

// lost says of a job at a place out of reach that its state can be another by now.
func (rp *Reporter) lost(record jobs.Record) string {
	if record.Place == "" || record.Status.Final() || rp.Jobs == nil {
		return ""
	}
	j := rp.Jobs.Lookup(record.ID)
	if j == nil {
		return ""
	}
	link := LinkOf(j.Live())
	if link.Lost.IsZero() {
		return ""
	}
	return "link lost for " + seconds(rp.time().Sub(link.Lost))
}

// isPast reports whether an earlier server ran the job.
func (rp *Reporter) isPast(record jobs.Record) bool {
	return rp.Jobs != nil && rp.Jobs.Lookup(record.ID) == nil
}

// Waited is Line for a list of jobs that a call has waited for. It leaves out the command of a job
// that has completed: the caller has started it and has nothing more to do about it.
func (rp *Reporter) Waited(record jobs.Record) string {
	if record.Status == jobs.Completed {
		return view.Line(rp.brief(record), lineMax)
	}
	return rp.Line(record)
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
