package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// StatusText returns the value of the Status line.
func StatusText(record jobs.Record) string {
	if record.Status.Final() {
		return ReceiptWithRemedy(record.Receipt).Text()
	}
	return string(record.Status)
}

// notes returns the notes of a receipt, and one for output lost to the disk or to the limit of all
// output. The job's own limit is not worth a note.
func notes(rec jobs.Receipt) []string {
	all := slices.Clip(rec.Notes)
	if rec.LoopServers != nil {
		all = append(all, loopNote(rec.LoopServers))
	}
	if s := remedyFor(rec); s != "" {
		all = append(all, s)
	}
	if n := rec.LostOutput.Disk; n > 0 {
		all = append(all, fmt.Sprintf("%d bytes of output were lost: the disk could not be written to or read", n))
	}
	if n := rec.LostOutput.Limit; n > 0 {
		all = append(all, fmt.Sprintf("%d bytes of output were lost: running jobs had reached the limit of all output (REPL_MAX_STATE)", n))
	}
	return all
}

// loopNote says when the servers on a session's event loop answer.
func loopNote(addresses []string) string {
	return "the session's event loop serves " + strings.Join(addresses, ", ") + ": it answers only while a job awaits"
}

// notesMax is the most notes of a receipt that a reply shows.
const notesMax = 20

// receipt writes the lines about a receipt that add to the status.
func receipt(r *Reply, id string, rec jobs.Receipt) {
	ends := []jobs.End{jobs.Signaled, jobs.Exited, jobs.Returned, jobs.Raised, jobs.OutOfMemory}
	if rec.Stop != nil || slices.Contains(ends, rec.End) && rec.By != "" && rec.By != jobs.Program {
		r.Line("Ended by", string(rec.By))
	}
	if len(rec.Rungs) > 1 || len(rec.Rest) > 0 {
		r.Line("Rungs", rungs(rec))
	}
	if s := changedNames(rec.Names); s != "" {
		r.Line("Variables", s)
	}
	if s := changedFiles(rec.Files); s != "" {
		r.Line("Files", s)
	}
	if rec.Checkpoint != "" {
		r.Line("Checkpoint", rec.Checkpoint)
	}
	r.Processes("Hung up", rec.HungUp, "; give a server a job of its own")
	r.Processes("Left running", rec.Left, "")
	r.Processes("Survivors", rec.Survivors, "")
	r.Processes("Unclaimed", rec.Unclaimed, "; of this job or of another")
	if rec.PendingTasks > 0 {
		r.Line("Pending tasks", strconv.Itoa(rec.PendingTasks))
	}
	all := notes(rec)
	for i, note := range all {
		if i == notesMax {
			r.Line("Note", fmt.Sprintf("%d more: read the resource job://%s", len(all)-i, id))
			break
		}
		r.Line("Note", note)
	}
}

// Limits of a list of names, in characters. Two lists fit into a header line.
const (
	nameMax  = 40
	namesMax = 100
)

// changedNames says which variables are new and which are gone, or returns "".
func changedNames(c jobs.NameChange) string {
	parts := firstNames(nil, "new", c.New, c.NewCount)
	return strings.Join(firstNames(parts, "gone", c.Gone, c.GoneCount), "; ")
}

// changedFiles says which files are new and which have changed, or returns "".
func changedFiles(c jobs.FileChange) string {
	parts := firstNames(nil, "new", shortPaths(c.New), c.NewCount)
	parts = firstNames(parts, "changed", shortPaths(c.Changed), c.ChangedCount)
	switch {
	case parts == nil:
		return ""
	case c.Partial:
		return strings.Join(parts, "; ") + " (while it ran; not all files were checked)"
	}
	return strings.Join(parts, "; ") + " (while it ran)"
}

// shortPaths returns paths, of long ones the end.
func shortPaths(paths []string) []string {
	short := make([]string, len(paths))
	for i, path := range paths {
		short[i] = view.Line(path, lineMax)
		if r := []rune(short[i]); len(r) > nameMax {
			short[i] = "…" + string(r[len(r)-nameMax+1:])
		}
	}
	return short
}

// firstNames adds to parts the names that fit, and counts the others. There are count names in all.
func firstNames(parts []string, what string, names []string, count int) []string {
	if count == 0 {
		return parts
	}
	list, sep := "", " "
	shown := 0
	for _, name := range names {
		name = view.Line(name, nameMax)
		if chars(list)+len(sep)+chars(name) > namesMax {
			break
		}
		list += sep + name
		sep = ", "
		shown++
	}
	if count > shown {
		list += fmt.Sprintf(" and %s more", view.Count(count-shown))
	}
	return append(parts, what+list)
}

// rungs lists the rungs that a job needed, and then the rungs that the rest of its tree needed
// after the job's end.
func rungs(rec jobs.Receipt) string {
	var parts []string
	if len(rec.Rungs) > 0 {
		parts = append(parts, list(rec.Rungs))
	}
	if len(rec.Rest) > 0 {
		parts = append(parts, list(rec.Rest)+" for the processes it had started")
	}
	return strings.Join(parts, "; ")
}

func list(rungs []jobs.Rung) string {
	names := make([]string, len(rungs))
	for i, rung := range rungs {
		names[i] = string(rung)
	}
	return strings.Join(names, ", ")
}
