package report

import (
	"errors"
	"fmt"
	"strings"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// Refusal returns the reply for an error about jobs that shows jobs, and nil for any other error.
func (rp *Reporter) Refusal(err error) *Reply {
	var (
		notFound *jobs.NotFoundError
		tooMany  *jobs.TooManyError
		several  *jobs.AmbiguousError
	)
	switch {
	case errors.As(err, &notFound):
		return rp.noSuchJob(notFound)
	case errors.As(err, &tooMany):
		return rp.tooMany(tooMany)
	case errors.As(err, &several):
		return rp.ambiguous(several)
	}
	return nil
}

// ambiguousMax bounds the list of jobs whose ids have the same prefix, in characters.
const ambiguousMax = 8000

func (rp *Reporter) ambiguous(e *jobs.AmbiguousError) *Reply {
	r := Textf("The ids of %s jobs begin with %s: give the whole id.\n", view.Count(len(e.Jobs)), OneLine(e.Prefix))
	text, shown := rp.Lines(e.Jobs, ambiguousMax)
	r.b.WriteString(strings.TrimSuffix(text, "\n"))
	if left := len(e.Jobs) - shown; left > 0 {
		fmt.Fprintf(&r.b, "\n%s more: see list_jobs", view.Count(left))
	}
	r.shown = e.Jobs[:shown]
	return r
}

func (rp *Reporter) noSuchJob(e *jobs.NotFoundError) *Reply {
	r := Textf("No such job: %s", OneLine(e.ID))
	if e.Forgotten {
		r.b.WriteString(" (it ended long ago and has been forgotten)")
	}
	if e.Earlier {
		r.b.WriteString("\nThat job belonged to an earlier server, which has not recorded it for this workspace (REPL_HISTORY), or too long ago; or another server runs it (async-repl ps).")
	} else if len(e.Nearest) == 0 {
		r.b.WriteString("\nThere are no jobs yet.")
	}
	if len(e.Nearest) > 0 {
		r.b.WriteString("\nNearest:")
	}
	for _, record := range e.Nearest {
		r.b.WriteString("\n" + rp.Line(record))
	}
	r.shown = e.Nearest
	return r
}

func (rp *Reporter) tooMany(e *jobs.TooManyError) *Reply {
	r := Textf("%s queued, the most allowed; nothing was started. Wait until some have run, answer those that wait for input, or end some with cancel_job.", view.CountAre(e.Limit, "job"))
	r.shown = e.Running[:min(runningMax, len(e.Running))]
	if len(e.Running) > 0 {
		fmt.Fprintf(&r.b, "\nRunning: %d", len(e.Running))
	}
	for _, record := range r.shown {
		r.b.WriteString("\n" + rp.Line(record))
	}
	return r
}
