package server

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/jobs"
)

// Programs read a job and its output as resources; models get text from the tools.

// resourcePage is how many jobs are in one answer to resources/list.
const resourcePage = 20

// resourceTemplates are the resources as clients see them listed, in the order of their URIs.
var resourceTemplates = []*mcp.ResourceTemplate{{
	Name: "job", Title: "Job", URITemplate: resource.JobTemplate, MIMEType: resource.JSON,
	Description: "A job as JSON: status, question, times, output, receipt, usage.",
}, {
	Name: "job-display", Title: "Display of a job", URITemplate: resource.DisplayTemplate,
	Description: "A picture or document that a job has shown, in full size. The job's record lists them.",
}, {
	Name: "job-output", Title: "Output of a job", URITemplate: resource.OutputTemplate,
	Description: "Output from cursor on (default 0); wait: so many seconds for some. view: text (default; escape codes stripped), raw, or screen (what the terminal shows). " +
		"_meta \"" + resource.OutputMeta + "\" holds next, the cursor to continue from, and more.",
}}

// A readResult is the answer to resources/read. The SDK's own type leaves out an empty text, which
// results in a part that is neither text nor blob.
type readResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string             `json:"resultType,omitempty"`
	Contents   []resource.Content `json:"contents"`
}

var (
	notCached  = mcp.Cacheable{CacheScope: "private"} // for this client and this moment only
	unchanging = mcp.Cacheable{CacheScope: "public"}  // a list that is the same for all clients
)

// errNoSuchPage refuses the cursor of a list that is all on one page.
var errNoSuchPage = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params"}

// listTemplates lists the templates of resources.
func listTemplates(p *mcp.ListResourceTemplatesParams) (mcp.Result, error) {
	if p != nil && p.Cursor != "" {
		return nil, errNoSuchPage
	}
	return &mcp.ListResourceTemplatesResult{Cacheable: unchanging, ResourceTemplates: resourceTemplates}, nil
}

func (c *conn) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (mcp.Result, error) {
	uri := req.Params.URI
	r, err := resource.Parse(uri)
	if err != nil {
		return nil, c.resourceError(uri, err)
	}
	j, err := c.find(ctx, r.ID)
	if err != nil {
		return nil, c.resourceError(uri, err)
	}
	r.Await(ctx, j)
	release, err := c.unread.Claim(ctx, int64(r.DisplaySize(j)))
	if err != nil {
		return nil, c.resourceError(uri, err)
	}
	defer delivery.TicketOf(req.Extra).OnAnswer(func(bool) { release() })
	contents, err := r.Read(j, c.reporter)
	if err != nil {
		return nil, c.resourceError(uri, err)
	}
	res := &readResult{Cacheable: notCached, Contents: contents}
	if delivery.SpeaksNewer(req) {
		res.ResultType = "complete"
	}
	return res, nil
}

// resourceError returns a refusal as a protocol error: unlike tools, resources have no result that
// could be marked as an error.
func (c *conn) resourceError(uri string, err error) error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: c.refusal(err).String(),
		Data:    rawjson.Of(map[string]string{"uri": uri}),
	}
}

// listResources lists jobs, newest first, a page at a time. The cursor of a page is the last job of
// the page before.
func (c *conn) listResources(p *mcp.ListResourcesParams) (mcp.Result, error) {
	f := jobs.Filter{Limit: resourcePage + 1} // one more, to know whether there is another page
	if p != nil && p.Cursor != "" {
		if _, err := c.jobs.Get(p.Cursor); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not from an earlier page: start again without one"}
		}
		f.Before = p.Cursor
	}
	list := c.jobs.List(f)
	res := &mcp.ListResourcesResult{Cacheable: notCached, Resources: []*mcp.Resource{}}
	if len(list) > resourcePage {
		list = list[:resourcePage]
		res.NextCursor = list[resourcePage-1].ID
	}
	for _, record := range list {
		r := &mcp.Resource{
			URI: report.JobURI(record.ID), Name: record.ID, Title: report.OneLine(record.Title), MIMEType: resource.JSON,
			Description: report.OneLine(fmt.Sprintf("%s, %s", report.StatusText(record), report.KindText(record))),
		}
		last := record.Created
		for _, t := range []time.Time{record.Started, record.Output.Last, record.Ended} {
			if t.After(last) {
				last = t
			}
		}
		r.Annotations = &mcp.Annotations{LastModified: last.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)}
		res.Resources = append(res.Resources, r)
	}
	return res, nil
}
