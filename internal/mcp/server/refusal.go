package server

// This file is the one place where errors become text: the packages below know no tools, and return
// errors that callers can act on. The remedies for failures are in hints.go of package report.

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// refusalOf returns the reply for an error: the problem and how to fix it. offersSessions says that the
// client has the tools for sessions.
func refusalOf(err error, rp *report.Reporter, offersSessions bool) *report.Reply {
	var m *report.Mistake
	if errors.As(err, &m) {
		return report.Textf("%s", m.Text)
	}
	if r := rp.Refusal(err); r != nil {
		return r
	}
	if text := ofSession(err, offersSessions); text != "" {
		return report.Textf("%s", text)
	}
	if errors.Is(err, jobs.ErrShutdown) {
		return report.Textf("The server is shutting down; nothing was started.")
	}
	return report.Textf("%s", capitalized(report.WithRemedy(err)))
}

func capitalized(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// ofSession returns the text for an error about sessions, or "".
func ofSession(err error, offersSessions bool) string {
	var (
		busy   *engine.BusyError
		no     *engine.NoSessionError
		exists *engine.SessionExistsError
		many   *engine.TooManySessionsError

		deleted *engine.DeletedError
		missing *engine.MissingCheckpointError
	)
	switch {
	case errors.As(err, &busy):
		text := fmt.Sprintf("Session %s can't be branched now: it is busy%s. ", busy.Session, busy.With())
		if busy.Waits {
			return text + "Answer that with send_python_input, or cancel it, and call again."
		}
		return text + "Call again when that has ended, or cancel it."
	case errors.As(err, &no):
		return noSession(no)
	case errors.As(err, &exists):
		return fmt.Sprintf("Session %s exists, and is not changed: use it, end it with delete_session, or take another name.\n%s", exists.Session.Name, exists.Session)
	case errors.As(err, &many):
		end := "end one with delete_session"
		if !offersSessions {
			end = "restart the Python of one that is done with"
		}
		text := fmt.Sprintf("%s open, the most allowed (REPL_MAX_SESSIONS): use one of them, or %s.", view.CountAre(many.Open, "session"), end)
		if many.Idle.Name != "" {
			text += "\nIdle longest: " + many.Idle.String()
		}
		return text
	case errors.As(err, &deleted):
		return capitalized(err.Error()) + "; make the session without from_session"
	case errors.As(err, &missing):
		return capitalized(err.Error()) + checkpointRemedy(missing)
	}
	return ""
}

// checkpointRemedy ends the text about a checkpoint that is missing.
func checkpointRemedy(missing *engine.MissingCheckpointError) string {
	switch {
	case missing.Other != "":
		return "; execute_python with from_job continues from it in a new session"
	case missing.None:
		return ": run a job with checkpoint=true first"
	case missing.Gone != nil:
		return "; execute_python with from_job and rerun=true makes its state again"
	}
	return ""
}

// noSession says that there is no such session, and which are near.
func noSession(e *engine.NoSessionError) string {
	text := fmt.Sprintf("No session %s", e.Name)
	if e.Loss != nil {
		return text + ": " + e.Loss.String() + ". The next execute_python makes it again, with its settings."
	}
	if near := arguments.Nearest(e.Name, e.Names); len(near) > 0 {
		return text + ". Nearest: " + nameList(near) + "."
	}
	if len(e.Names) == 0 {
		return text + ": there are no sessions yet. execute_python makes one."
	}
	return text + ". There are: " + nameList(e.Names) + "."
}

// namesMax is the most names that a text lists.
const namesMax = 10

// nameList lists the first names and counts the others.
func nameList(list []string) string {
	text := strings.Join(list[:min(namesMax, len(list))], ", ")
	if left := len(list) - namesMax; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}
