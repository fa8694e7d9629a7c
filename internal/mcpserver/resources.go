package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/report"
	"asyncrepl/jobs"
)

// What programs read: a job and its output, as resources. Models are given text
// by the tools.

const (
	jobTemplate    = "job://{id}"
	outputTemplate = "job://{id}/output{?cursor,view}"
	mimeJSON       = "application/json"
	resourcePage   = 20 // jobs in one answer to resources/list
)

// outputMeta is the key in the _meta of each part of a job's output; what
// stands there is a [report.OutputRange].
const outputMeta = "async-repl/output"

// resourceTemplates are what a client is told of the resources.
var resourceTemplates = []*mcp.ResourceTemplate{{
	Name: "job", Title: "Job", URITemplate: jobTemplate, MIMEType: mimeJSON,
	Description: "A job as JSON: status, question, times, output, receipt, usage.",
}, {
	Name: "job-output", Title: "Output of a job", URITemplate: outputTemplate,
	Description: "Output from cursor on (default 0). view: text (default; escape codes stripped) or raw. " +
		"_meta \"" + outputMeta + "\" holds next, the cursor to continue from, and more.",
}}

// A resourceRequest is a URI taken apart.
type resourceRequest struct {
	id     string
	output bool
	cursor int64
	raw    bool
}

const resourcesAre = "The resources are " + jobTemplate + " and " + outputTemplate + "."

// parseResource takes a URI apart.
func parseResource(uri string) (r resourceRequest, err error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "job" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return r, mistakef("No such resource: %s. %s", report.OneLine(uri), resourcesAre)
	}
	r.id = strings.ToUpper(u.Host) // a host may come back in small letters
	switch strings.TrimSuffix(u.Path, "/") {
	case "":
	case "/output":
		r.output = true
	default:
		return r, mistakef("No such resource: %s. %s", report.OneLine(uri), resourcesAre)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return r, mistakef("The query of %s can't be read. %s", report.OneLine(uri), resourcesAre)
	}
	for name, values := range query {
		if !r.output || name != "cursor" && name != "view" {
			return r, mistakef("Unknown parameter of a resource: %s. %s", report.OneLine(name), resourcesAre)
		}
		if len(values) > 1 {
			return r, mistakef("%s is given twice.", name)
		}
	}
	if s := query.Get("cursor"); query.Has("cursor") {
		if r.cursor, err = strconv.ParseInt(s, 10, 64); err != nil || r.cursor < 0 {
			return r, mistakef("cursor must be a count of bytes, 0 or more: the next of an earlier read.")
		}
	}
	switch query.Get("view") {
	case "text", "":
	case "raw":
		r.raw = true
	case "screen":
		return r, mistakef("view screen is not built yet: use text or raw.")
	default:
		return r, mistakef("view must be one of: text, raw.")
	}
	return r, nil
}

// A content is one part of a resource: text, which may be empty, or a blob.
type content struct {
	URI      string         `json:"uri"`
	MIMEType string         `json:"mimeType"`
	Text     *string        `json:"text,omitempty"`
	Blob     []byte         `json:"blob,omitempty"`
	Meta     map[string]any `json:"_meta,omitempty"`
}

// A readResult is the answer to resources/read. The SDK's own leaves an empty
// text out, which makes a part that is neither text nor blob.
type readResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string    `json:"resultType,omitempty"`
	Contents   []content `json:"contents"`
}

// notCached keeps what one client reads now from others and from later.
var notCached = mcp.Cacheable{CacheScope: "private"}

// resources answers what concerns resources, in place of the SDK: it knows
// neither lists that change nor queries in any order.
func (c *conn) resources(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch req := req.(type) {
		case *mcp.ReadResourceRequest:
			return c.readResource(req.Params)
		case *mcp.ListResourcesRequest:
			return c.listResources(req.Params)
		}
		return next(ctx, method, req)
	}
}

func (c *conn) readResource(p *mcp.ReadResourceParams) (mcp.Result, error) {
	contents, err := c.contents(p.URI)
	if err != nil {
		return nil, c.resourceError(p.URI, err)
	}
	res := &readResult{Cacheable: notCached, Contents: contents}
	if _, newer := p.GetMeta()["io.modelcontextprotocol/protocolVersion"]; newer {
		res.ResultType = "complete"
	}
	return res, nil
}

func (c *conn) contents(uri string) ([]content, error) {
	r, err := parseResource(uri)
	if err != nil {
		return nil, err
	}
	j, err := c.Jobs.Get(c.scope.Tenant, r.id)
	if err != nil {
		return nil, err
	}
	if r.output {
		return outputOf(uri, j, r)
	}
	text := string(marshal(c.reporter().Record(j.Info())))
	return []content{{URI: uri, MIMEType: mimeJSON, Text: &text}}, nil
}

// outputOf is one read of a job's output.
func outputOf(uri string, j *jobs.Job, r resourceRequest) ([]content, error) {
	if end := j.Log().Stat().End; r.cursor > end {
		return nil, mistakef("cursor %d is beyond the end of job %s's output, %d. Use the next of an earlier read.", r.cursor, j.ID(), end)
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

// resourceError is a refusal as resources have it: they have no result to put
// it in.
func (c *conn) resourceError(uri string, err error) error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: c.refusal(err).String(),
		Data:    json.RawMessage(marshal(map[string]string{"uri": uri})),
	}
}

// listResources lists jobs, newest first, a page at a time: the cursor of a page
// is the last job of the one before.
func (c *conn) listResources(p *mcp.ListResourcesParams) (mcp.Result, error) {
	f := jobs.Filter{Limit: resourcePage + 1} // one more, to know whether there is
	if p != nil && p.Cursor != "" {
		if _, err := c.Jobs.Get(c.scope.Tenant, p.Cursor); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not one of an earlier page: begin anew without one"}
		}
		f.Before = p.Cursor
	}
	list := c.Jobs.List(c.scope.Tenant, f)
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
