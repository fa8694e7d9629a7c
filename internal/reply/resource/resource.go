// Package resource reads what programs get of jobs by address: a job as JSON, its output, and its
// displays. Models get text from the tools instead. A front end serves the addresses as MCP
// resources: https://modelcontextprotocol.io/specification/2025-11-25/server/resources
//
// [Parse] reads an address, and [Request.Read] what it names. Their errors are mistakes of the
// caller, in words that say how to correct them. The package knows no protocol: a front end finds
// the job and sends the contents.
package resource

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// The templates of the addresses: https://www.rfc-editor.org/rfc/rfc6570
const (
	JobTemplate     = "job://{id}"
	OutputTemplate  = "job://{id}/output{?cursor,view,wait}"
	DisplayTemplate = "job://{id}/display/{n}"
)

// JSON is the type of a job as a resource.
const JSON = "application/json"

// OutputMeta is the key of a [Range], or of a [Screen], in the Meta of each part of a job's output.
const OutputMeta = "async-repl/output"

// A Request is a parsed address.
type Request struct {
	ID      string // the job's ID
	uri     string
	output  bool
	display int // the number of the display asked for; 0 if it asks for no display
	cursor  int64
	view    string // the view of the output; empty for text
	wait    time.Duration
}

// maxWait is the longest wait of an address, in seconds, as of a call that asks for a job's status.
const maxWait = 110

const resourcesAre = "The resources are " + JobTemplate + ", " + OutputTemplate + " and " + DisplayTemplate + "."

// Parse reads an address.
func Parse(uri string) (r Request, err error) {
	r.uri = uri
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "job" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return r, report.Mistakef("No such resource: %s. %s", report.OneLine(uri), resourcesAre)
	}
	r.ID = strings.ToUpper(u.Host) // clients can write a host in lower case
	path := strings.TrimSuffix(u.Path, "/")
	number, isDisplay := strings.CutPrefix(path, "/display/")
	if isDisplay {
		r.display, err = strconv.Atoi(number)
	}
	switch r.output = path == "/output"; {
	case isDisplay && err == nil && r.display > 0, r.output, path == "":
	default:
		return r, report.Mistakef("No such resource: %s. %s", report.OneLine(uri), resourcesAre)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return r, report.Mistakef("The query of %s can't be read. %s", report.OneLine(uri), resourcesAre)
	}
	return r, r.setQuery(query)
}

func (r *Request) setQuery(query url.Values) (err error) {
	for name, values := range query {
		if !r.output || name != "cursor" && name != "view" && name != "wait" {
			return report.Mistakef("Unknown parameter of a resource: %s. %s", report.OneLine(name), resourcesAre)
		}
		if len(values) > 1 {
			return report.Mistakef("%s is given twice.", name)
		}
	}
	if query.Has("cursor") {
		if r.cursor, err = strconv.ParseInt(query.Get("cursor"), 10, 64); err != nil || r.cursor < 0 {
			return report.Mistakef("cursor must be a count of bytes, 0 or more: the next of an earlier read.")
		}
	}
	if query.Has("wait") {
		seconds, err := strconv.Atoi(query.Get("wait"))
		if err != nil || seconds < 0 || seconds > maxWait {
			return report.Mistakef("wait must be a whole number of seconds, 0 to %d; read again to wait longer.", maxWait)
		}
		r.wait = time.Duration(seconds) * time.Second
	}
	r.view = query.Get("view")
	switch r.view {
	case "", report.TextView, report.RawView:
		return nil
	case report.ScreenView:
		if query.Has("cursor") || query.Has("wait") {
			return report.Mistakef("view=screen shows the screen as it is now, at no cursor. Leave cursor and wait out, or use view=text.")
		}
		return nil
	}
	return report.Mistakef("view must be one of: %s, %s, %s.", report.TextView, report.ScreenView, report.RawView)
}

// Await waits until there is output at the cursor that is asked for, or the output has ended, for as long as
// the address says.
func (r Request) Await(ctx context.Context, j *jobs.Job) {
	if r.wait > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.wait)
		defer cancel()
		_ = j.Log().Wait(ctx, r.cursor) // what is read shows why it returned
	}
}

// DisplaySize returns the size in bytes of the display that is asked for, or 0 if no such display
// exists.
func (r Request) DisplaySize(j *jobs.Job) int {
	if full, found := r.fullSize(j); found {
		return full.Size
	}
	return 0
}

// fullSize returns the last form of the display that is asked for.
func (r Request) fullSize(j *jobs.Job) (full jobs.Form, found bool) {
	for _, d := range j.Displays() {
		if d.Number == r.display {
			return d.Forms[len(d.Forms)-1], true
		}
	}
	return jobs.Form{}, false
}

// A Content is one part of a resource: text, which may be empty, or a blob.
type Content struct {
	URI      string         `json:"uri"`
	MIMEType string         `json:"mimeType"`
	Text     *string        `json:"text,omitempty"`
	Blob     []byte         `json:"blob,omitempty"`
	Meta     map[string]any `json:"_meta,omitempty"`
}

// Read returns the contents of the resource, which must belong to job j.
func (r Request) Read(j *jobs.Job, reporter *report.Reporter) ([]Content, error) {
	switch {
	case r.output && r.view == report.ScreenView:
		return r.readScreen(j)
	case r.output:
		return r.readOutput(j)
	case r.display > 0:
		return r.readDisplay(j)
	}
	b, err := json.Marshal(reporter.Document(j.Record(), j.Live(), j.Displays(), j.Log()))
	if err != nil {
		return nil, err
	}
	text := string(b)
	return []Content{{URI: r.uri, MIMEType: JSON, Text: &text}}, nil
}

// readOutput returns one read of a job's output.
func (r Request) readOutput(j *jobs.Job) ([]Content, error) {
	if end := j.Log().Stat().End; r.cursor > end {
		return nil, report.Mistakef("cursor %d is beyond the end of job %s's output, %d. Use the next of an earlier read.", r.cursor, j.ID(), end)
	}
	var list []Content
	raw := r.view == report.RawView
	for _, p := range outputParts(j, r.cursor, raw) {
		c := Content{URI: r.uri, MIMEType: "text/plain", Meta: map[string]any{OutputMeta: p.rng}}
		if raw && !utf8.Valid(p.data) {
			c.MIMEType, c.Blob = "application/octet-stream", p.data
		} else {
			text := string(p.data)
			c.Text = &text
		}
		list = append(list, c)
	}
	return list, nil
}

// readDisplay returns a display of a job in its last form, which is the full size.
func (r Request) readDisplay(j *jobs.Job) ([]Content, error) {
	full, found := r.fullSize(j)
	switch all, n := j.Numbered(), r.display; {
	case all == 0:
		return nil, report.Mistakef("Job %s has shown nothing.", j.ID())
	case n > all:
		return nil, report.Mistakef("Job %s has no display %d: they are 1 to %d.", j.ID(), n, all)
	case !found:
		return nil, report.Mistakef("Job %s has replaced its display %d (clear_output): only the later ones are kept.", j.ID(), n)
	}
	data, err := j.Data(full)
	if err != nil {
		why := err.Error()
		if errors.Is(err, output.ErrLimit) {
			why += " (REPL_MAX_STATE)"
		}
		return nil, report.Mistakef("The data of display %d of job %s can't be read any more: %s.", r.display, j.ID(), why)
	}
	c := Content{URI: r.uri, MIMEType: full.MIME}
	if isText(full.MIME) && utf8.Valid(data) || len(data) == 0 { // an empty blob would be left out
		text := string(data)
		c.Text = &text
	} else {
		c.Blob = data
	}
	return []Content{c}, nil
}

// isText reports whether data of a type is text.
func isText(mimeType string) bool {
	base, _, _ := strings.Cut(mimeType, ";")
	return strings.HasPrefix(base, "text/") || strings.HasSuffix(base, "json") || strings.HasSuffix(base, "xml")
}
