package mcpserver

import (
	"context"
	"errors"
	"io"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/report"
)

// errLeaving ends the waits of a connection that is about to be closed.
var errLeaving = errors.New("the connection is being closed")

// A conn is one connection: what its calls have in common.
type conn struct {
	*Engine
	scope Scope
	door  door
	news  news
}

// Serve serves one connection until the client goes; then its calls in flight
// are answered as they would be, for as long as the [Transport] waits for them.
// When ctx is done it ends sooner: waits end, and calls in flight are answered
// at once with the present status. Jobs live on either way.
func Serve(ctx context.Context, rwc io.ReadWriteCloser, e *Engine, sc Scope) error {
	c := &conn{Engine: e, scope: sc}
	present, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	t := &Transport{Stream: rwc, Cut: ctx, Leave: func() { leave(errLeaving) }, Drain: c.Drain, Log: c.log()}
	session, err := c.server(present).Connect(context.WithoutCancel(ctx), orderly{t, &c.door}, nil)
	if err != nil {
		rwc.Close()
		return err
	}
	return session.Wait()
}

// server builds the MCP server of the connection. Its calls wait no longer than
// until present is done.
func (c *conn) server(present context.Context) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "async-repl", Version: c.Version}, &mcp.ServerOptions{
		Instructions: instructions, // and no Logger: what the SDK tells of each connection is of no use to anybody
		// The list of tools never changes, nobody is told of new jobs by the list of
		// resources, and logging is not offered.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
	})
	s.AddReceivingMiddleware(c.recovering, leaving(present), c.resources)
	for _, t := range resourceTemplates {
		s.AddResourceTemplate(t, nil) // read by c.resources
	}
	for _, t := range tools(c.grace()) {
		s.AddTool(t.definition(), c.handler(t))
	}
	return s
}

// handler makes a tool of t: its mistakes and refusals are results marked as
// errors.
func (c *conn) handler(t *tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ticket := c.door.current()
		defer ticket.pass()
		a, err := decode(t, req.Params.Arguments)
		if err != nil {
			return result(report.Textf("%s", err), true), nil
		}
		call := &invocation{conn: c, args: a, ticket: ticket, progress: c.newProgress(req), notices: &telling{news: &c.news}}
		read := false // will be, as far as is known
		defer func() { call.notices.done(read) }()
		reply, err := t.call(call, ctx)
		gone := context.Cause(ctx)
		read = (gone == nil || gone == errLeaving) && c.door.wanted(ticket.id)
		if err != nil {
			r := c.refusal(err)
			call.notices.shows(r.Shown()...)
			return result(r, true), nil
		}
		return result(reply, false), nil
	}
}

// result is the reply as the protocol has it.
func result(r *report.Reply, isError bool) *mcp.CallToolResult {
	content := []mcp.Content{&mcp.TextContent{Text: r.String()}}
	for _, b := range r.Blocks {
		content = append(content, &mcp.ImageContent{MIMEType: b.MIMEType, Data: b.Data})
	}
	return &mcp.CallToolResult{Content: content, IsError: isError}
}

// leaving ends the context of every request when present is done.
func leaving(present context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(present, func() { cancel(errLeaving) })()
			return next(ctx, method, req)
		}
	}
}

// recovering answers for a handler that panics: the client is told that it was
// a defect, the log what it was, and the other calls go on.
func (c *conn) recovering(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			call, ok := req.(*mcp.CallToolRequest)
			name := ""
			if ok && call.Params != nil {
				name = call.Params.Name
			}
			c.log().Error("panic in a request", "method", method, "tool", name, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			if ok {
				res, err = result(report.Textf("Internal error: a defect of this server, told in its log. Jobs go on; list_jobs shows them."), true), nil
			}
		}()
		return next(ctx, method, req)
	}
}
