package overview

import (
	"fmt"
	"strings"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// resumedMax bounds what is said about a taken-over engine, in bytes.
const resumedMax = 300

// Resumed names the jobs that have not ended and the sessions that have variables or a job, for a
// client that takes over what an earlier one has left. older, unless it is empty, comes first.
// Resumed returns "" if there is nothing.
func Resumed(unended []jobs.Record, sessions []Session, older string) string {
	var items []string
	if older != "" {
		items = append(items, older)
	}
	for _, record := range unended {
		state := string(record.Status)
		if record.Status == jobs.WaitingInput {
			state = "waits for input"
		}
		items = append(items, fmt.Sprintf("job %s%s %s", record.ID, at(record.Place, ""), state))
	}
	for _, s := range sessions {
		switch { // while the first job of a session runs, its variables are not known
		case s.Variables > 0:
			items = append(items, fmt.Sprintf("session %s%s with %s", s.Name, at(s.Place, ""), view.CountOf(s.Variables, "variable")))
		case s.Job != "":
			items = append(items, "session "+s.Name+at(s.Place, ""))
		}
	}
	var b strings.Builder
	for i, item := range items {
		rest := ""
		if i < len(items)-1 {
			rest = more(len(items) - i - 1)
		}
		if b.Len()+len("; ")+len(item)+len(rest) > resumedMax {
			b.WriteString(more(len(items) - i))
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(item)
	}
	return b.String()
}

// at names a place in the middle of a text, unless it is here, and where it is there, if that is known.
func at(place, where string) string {
	switch {
	case place == "":
		return ""
	case where == "":
		return " at " + place
	}
	return " at " + place + " (" + where + ")"
}

func more(n int) string { return fmt.Sprintf("; %d more: see list_jobs and list_sessions", n) }
