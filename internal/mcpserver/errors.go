package mcpserver

import (
	"errors"
	"unicode"
	"unicode/utf8"

	"asyncrepl/internal/arguments"
	"asyncrepl/internal/keys"
	"asyncrepl/internal/report"
	"asyncrepl/internal/tty"
	"asyncrepl/jobs"
)

// refusal returns the reply for an error: the problem and how to fix it. It is the one place where
// errors become text.
func (c *conn) refusal(err error) *report.Reply {
	var m *arguments.Mistake
	if errors.As(err, &m) {
		return report.Textf("%s", m.Text)
	}
	if r := c.reporter.Refusal(err); r != nil {
		return r
	}
	if text := c.sessionRefusal(err); text != "" {
		return report.Textf("%s", text)
	}
	if errors.Is(err, jobs.ErrShutdown) {
		return report.Textf("The server is shutting down; nothing was started.")
	}
	text := capitalized(err.Error())
	for _, r := range remedies {
		if errors.Is(err, r.err) {
			text += ": " + r.remedy
		}
	}
	return report.Textf("%s", text)
}

// remedies say in the terms of the tools how to avoid an error of a package that knows no tools.
// Those for jobs that could not start are in package report.
var remedies = []struct {
	err    error
	remedy string
}{
	{tty.ErrLineTooLong, "send it in parts to a command started with tty=false, or put it in a file"},
	{tty.ErrControl, `press them with keys, such as keys=["ctrl-c"]; use eof=true for end of file, or tty=false`},
	{tty.ErrRawEOF, `send keys=["ctrl-d"], which ends a readline prompt, or the key that the program quits by`},
	{jobs.ErrNoTerminal, "it takes text, eof and signal; start it without tty=false for keys, paste and size"},
	{keys.ErrPasteControl, "send them with keys or, if the program reads keys, as text without paste"},
	{tty.ErrEcho, "wait until the job asks with Waiting: secret"},
}

func capitalized(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
