package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/arguments"
	"asyncrepl/internal/output"
	"asyncrepl/internal/report"
	"asyncrepl/jobs"
)

// Programs read a job and its output as resources; models get text from the tools.

const (
	jobTemplate     = "job://{id}"
	outputTemplate  = "job://{id}/output{?cursor,view}"
	displayTemplate = "job://{id}/display/{n}"
	mimeJSON        = "application/json"
	resourcePage    = 20 // jobs in one answer to resources/list
)

// outputMeta is the key of a [report.OutputRange] in the _meta of each part of a job's output.
const outputMeta = "async-repl/output"

// resourceTemplates are the resources as clients see them listed.
var resourceTemplates = []*mcp.ResourceTemplate{{
	Name: "job", Title: "Job", URITemplate: jobTemplate, MIMEType: mimeJSON,
	Description: "A job as JSON: status, question, times, output, receipt, usage.",
}, {
	Name: "job-output", Title: "Output of a job", URITemplate: outputTemplate,
	Description: "Output from cursor on (default 0). view: text (default; escape codes stripped) or raw. " +
		"_meta \"" + outputMeta + "\" holds next, the cursor to continue from, and more.",
}, {
	Name: "job-display", Title: "Display of a job", URITemplate: displayTemplate,
	Description: "A picture or document that a job has shown, in full size. The job's record lists them.",
}}

// A resourceRequest is a parsed URI.
type resourceRequest struct {
	id      string
	output  bool
	display int // its number; 0: no display is asked for
	cursor  int64
	raw     bool
}

const resourcesAre = "The resources are " + jobTemplate + ", " + outputTemplate + " and " + displayTemplate + "."

func parseResource(uri string) (r resourceRequest, err error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "job" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return r, arguments.Mistakef("No such resource: %s. %s", report.OneLine(uri), resourcesAre)
	}
	r.id = strings.ToUpper(u.Host) // clients can write a host in lower case
	path := strings.TrimSuffix(u.Path, "/")
	number, isDisplay := strings.CutPrefix(path, "/display/")
	if isDisplay {
		r.display, err = strconv.Atoi(number)
	}
	switch r.output = path == "/output"; {
	case isDisplay && err == nil && r.display > 0, r.output, path == "":
	default:
		return r, arguments.Mistakef("No such resource: %s. %s", report.OneLine(uri), resourcesAre)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return r, arguments.Mistakef("The query of %s can't be read. %s", report.OneLine(uri), resourcesAre)
	}
	return r, r.setQuery(query)
}

func (r *resourceRequest) setQuery(query url.Values) error {
	for name, values := range query {
		if !r.output || name != "cursor" && name != "view" {
			return arguments.Mistakef("Unknown parameter of a resource: %s. %s", report.OneLine(name), resourcesAre)
		}
		if len(values) > 1 {
			return arguments.Mistakef("%s is given twice.", name)
		}
	}
	if query.Has("cursor") {
		if err := r.setCursor(query.Get("cursor")); err != nil {
			return err
		}
	}
	return r.setView(query.Get("view"))
}

func (r *resourceRequest) setCursor(s string) (err error) {
	if r.cursor, err = strconv.ParseInt(s, 10, 64); err != nil || r.cursor < 0 {
		return arguments.Mistakef("cursor must be a count of bytes, 0 or more: the next of an earlier read.")
	}
	return nil
}

func (r *resourceRequest) setView(s string) error {
	switch s {
	case "text", "":
	case "raw":
		r.raw = true
	case "screen":
		return arguments.Mistakef("view screen is not built yet: use text or raw.")
	default:
		return arguments.Mistakef("view must be one of: text, raw.")
	}
	return nil
}

// A content is one part of a resource: text, which may be empty, or a blob.
type content struct {
	URI      string         `json:"uri"`
	MIMEType string         `json:"mimeType"`
	Text     *string        `json:"text,omitempty"`
	Blob     []byte         `json:"blob,omitempty"`
	Meta     map[string]any `json:"_meta,omitempty"`
}

// A readResult is the answer to resources/read. The SDK's own type leaves out an empty text, which
// results in a part that is neither text nor blob.
type readResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string    `json:"resultType,omitempty"`
	Contents   []content `json:"contents"`
}

// notCached says that an answer is for this client and this moment only.
var notCached = mcp.Cacheable{CacheScope: "private"}

// resources answers requests about resources in place of the SDK, which knows neither lists that
// change nor queries in any order.
func (c *conn) resources(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch req := req.(type) {
		case *mcp.ReadResourceRequest:
			return c.readResource(req)
		case *mcp.ListResourcesRequest:
			return c.listResources(req.Params)
		}
		return next(ctx, method, req)
	}
}

func (c *conn) readResource(req *mcp.ReadResourceRequest) (mcp.Result, error) {
	contents, err := c.contents(req.Params.URI)
	if err != nil {
		return nil, c.resourceError(req.Params.URI, err)
	}
	res := &readResult{Cacheable: notCached, Contents: contents}
	if speaksNewer(req) {
		res.ResultType = "complete"
	}
	return res, nil
}

func (c *conn) contents(uri string) ([]content, error) {
	r, err := parseResource(uri)
	if err != nil {
		return nil, err
	}
	j, err := c.job(r.id)
	if err != nil {
		return nil, err
	}
	switch {
	case r.output:
		return outputOf(uri, j, r)
	case r.display > 0:
		return displayOf(uri, j, r.display)
	}
	text := string(marshal(c.reporter.Record(j.Info(), j.Displays())))
	return []content{{URI: uri, MIMEType: mimeJSON, Text: &text}}, nil
}

// outputOf returns one read of a job's output.
func outputOf(uri string, j *jobs.Job, r resourceRequest) ([]content, error) {
	if end := j.Log().Stat().End; r.cursor > end {
		return nil, arguments.Mistakef("cursor %d is beyond the end of job %s's output, %d. Use the next of an earlier read.", r.cursor, j.ID(), end)
	}
	var list []content
	for _, p := range report.ReadOutput(j, r.cursor, r.raw) {
		c := content{URI: uri, MIMEType: "text/plain", Meta: map[string]any{outputMeta: p.Range}}
		if r.raw && !utf8.Valid(p.Data) {
			c.MIMEType, c.Blob = "application/octet-stream", p.Data
		} else {
			text := string(p.Data)
			c.Text = &text
		}
		list = append(list, c)
	}
	return list, nil
}

// displayOf returns display n of a job, in its last form, which is the full size.
func displayOf(uri string, j *jobs.Job, n int) ([]content, error) {
	all := j.Displays()
	switch {
	case len(all) == 0:
		return nil, arguments.Mistakef("Job %s has shown nothing.", j.ID())
	case n > len(all):
		return nil, arguments.Mistakef("Job %s has no display %d: they are 1 to %d.", j.ID(), n, len(all))
	}
	forms := all[n-1].Forms
	full := forms[len(forms)-1]
	data, err := j.Data(full)
	if err != nil {
		why := err.Error()
		if errors.Is(err, output.ErrLimit) {
			why += " (REPL_MAX_STATE)"
		}
		return nil, arguments.Mistakef("The data of display %d of job %s can't be read any more: %s.", n, j.ID(), why)
	}
	c := content{URI: uri, MIMEType: full.MIME}
	if isText(full.MIME) && utf8.Valid(data) || len(data) == 0 { // an empty blob would be left out
		text := string(data)
		c.Text = &text
	} else {
		c.Blob = data
	}
	return []content{c}, nil
}

// isText reports whether data of a type is text.
func isText(mimeType string) bool {
	base, _, _ := strings.Cut(mimeType, ";")
	return strings.HasPrefix(base, "text/") || strings.HasSuffix(base, "json") || strings.HasSuffix(base, "xml")
}

// resourceError returns a refusal as a protocol error: unlike tools, resources have no result that
// could be marked as an error.
func (c *conn) resourceError(uri string, err error) error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: c.refusal(err).String(),
		Data:    json.RawMessage(marshal(map[string]string{"uri": uri})),
	}
}

// listResources lists jobs, newest first, a page at a time. The cursor of a page is the last job of
// the page before.
func (c *conn) listResources(p *mcp.ListResourcesParams) (mcp.Result, error) {
	f := jobs.Filter{Limit: resourcePage + 1} // one more, to know whether there is another page
	if p != nil && p.Cursor != "" {
		if _, err := c.job(p.Cursor); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not from an earlier page: start again without one"}
		}
		f.Before = p.Cursor
	}
	list := c.jobs.List(c.scope.Tenant, f)
	res := &mcp.ListResourcesResult{Cacheable: notCached, Resources: []*mcp.Resource{}}
	if len(list) > resourcePage {
		list = list[:resourcePage]
		res.NextCursor = list[resourcePage-1].ID
	}
	for _, info := range list {
		r := &mcp.Resource{
			URI: report.JobURI(info.ID), Name: info.ID, Title: report.OneLine(info.Title), MIMEType: mimeJSON,
			Description: report.OneLine(fmt.Sprintf("%s, %s", report.StatusText(info), report.KindText(info))),
		}
		last := info.Created
		for _, t := range []time.Time{info.Started, info.Output.Last, info.Ended} {
			if t.After(last) {
				last = t
			}
		}
		r.Annotations = &mcp.Annotations{LastModified: last.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)}
		res.Resources = append(res.Resources, r)
	}
	return res, nil
}

// marshal encodes a value that can always be encoded.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
