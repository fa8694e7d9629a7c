//go:build unix

package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coder/websocket"

	"asyncrepl/internal/page"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// parse reads a message of an engine.
func parse(kind websocket.MessageType, text []byte, server string) (m page.Update, err error) {
	if kind != websocket.MessageText {
		return m, errors.New("it is no text")
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	for i := range m.Jobs {
		if err := clean(&m.Jobs[i], server); err != nil {
			return m, err
		}
	}
	switch o := m.Output; {
	case m.Job != nil && m.Job.Document == nil:
		return m, errors.New("a job has no record")
	case m.Job != nil:
		m.Job.Server = server
	case o != nil && o.Parts == nil:
		o.Parts = []page.Part{}
	}
	m.Error = oneLine(m.Error)
	return m, nil
}

// clean checks a job of an engine's list, and makes each of its texts one short line, because it is kept.
func clean(b *page.Brief, server string) error {
	if !isID(b.ID) {
		return fmt.Errorf("%.40q is no id of a job", b.ID)
	}
	b.Server = server
	short := func(s string) string { return view.Line(s, maxText) }
	b.Kind, b.Status = jobs.Kind(short(string(b.Kind))), jobs.Status(short(string(b.Status)))
	b.Title, b.Session, b.Place, b.StatusText = short(b.Title), short(b.Session), short(b.Place), short(b.StatusText)
	b.Away = page.Away{Where: short(b.Where), Link: short(b.Link), Queued: short(b.Queued)}
	if q := b.Question; q != nil {
		q.Kind, q.Prompt, q.By = short(q.Kind), short(q.Prompt), short(q.By)
	}
	return nil
}

// isID reports whether a text is the id of a job.
func isID(text string) bool {
	const length = 26
	return len(text) == length && strings.Trim(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// What an engine says is bounded, in characters.
const (
	maxLine = 2000 // a line
	maxText = 150  // a text of a job in the list: engines send no more
)

// oneLine returns what an engine says without anything that a terminal or a page obeys.
func oneLine(s string) string { return view.Line(s, maxLine) }
