package mcpserver

import (
	"errors"
	"unicode"
	"unicode/utf8"

	"asyncrepl/internal/report"
	"asyncrepl/jobs"
)

// refusal is what a client is told of an error: what is wrong and what to do
// about it. It is the one place where errors become text.
func (c *conn) refusal(err error) *report.Reply {
	var m *mistake
	if errors.As(err, &m) {
		return report.Textf("%s", m.text)
	}
	if r := c.reporter().Refusal(err); r != nil {
		return r
	}
	if errors.Is(err, jobs.ErrShutdown) {
		return report.Textf("The server is shutting down; nothing was started.")
	}
	return report.Textf("%s", capitalized(err.Error()))
}

func capitalized(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
