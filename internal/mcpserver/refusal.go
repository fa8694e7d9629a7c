package mcpserver

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// refusal is what a client is told of an error: what is wrong and what to do
// about it. It is the one place where errors become text.
func (c *conn) refusal(err error) string {
	var (
		m        *mistake
		notFound *jobs.NotFoundError
		tooMany  *jobs.TooManyError
	)
	switch {
	case errors.As(err, &m):
		return m.text
	case errors.As(err, &notFound):
		return c.reporter().noSuchJob(notFound)
	case errors.As(err, &tooMany):
		text := fmt.Sprintf("%s jobs are running, the most allowed; nothing was started. Wait for one or end one with cancel_job.", view.Count(tooMany.Limit))
		if tooMany.Oldest.ID != "" {
			text += "\nThe oldest: " + c.reporter().line(tooMany.Oldest)
		}
		return text
	case errors.Is(err, jobs.ErrShutdown):
		return "The server is shutting down; nothing was started."
	}
	return capitalized(err.Error())
}

// shownBy returns the jobs that the refusal of an error shows.
func shownBy(err error) []jobs.Info {
	var (
		notFound *jobs.NotFoundError
		tooMany  *jobs.TooManyError
	)
	switch {
	case errors.As(err, &notFound):
		return notFound.Nearest
	case errors.As(err, &tooMany):
		return []jobs.Info{tooMany.Oldest}
	}
	return nil
}

func (rp *reporter) noSuchJob(e *jobs.NotFoundError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "No such job: %s", headerValue(e.ID))
	if e.Forgotten {
		b.WriteString(" (it ended long ago and has been forgotten)")
	}
	if len(e.Nearest) == 0 {
		b.WriteString("\nThere are no jobs yet.")
		return b.String()
	}
	b.WriteString("\nNearest:")
	for _, info := range e.Nearest {
		b.WriteString("\n" + rp.line(info))
	}
	return b.String()
}

func capitalized(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
