package report

import (
	"fmt"
	"slices"
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
