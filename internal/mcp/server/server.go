package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/files"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// A conn is the state that the calls of one connection share.
type conn struct {
	Config
	jobs     *jobs.Registry // the Backend's
	scope    engine.Scope
	tools    func(defaults) []*tool // sharedTools, except in tests
	reporter *report.Reporter
	changes  delivery.Changes
	unread   *delivery.Room
	resumed  func() string // resumedNow, as it was at the first call
}

// unreadMax is how many bytes of pictures and displays can be in answers of a connection that are
// not queued yet.
const unreadMax = 16 << 20

// New returns the server of one connection, over any transport of the SDK. Its calls see the jobs
// that sc covers. When ctx is done, they stop waiting and are answered with the current status.
// Jobs outlive both the connection and ctx.
//
// Several connections can share a server if one client makes them all, as over HTTP: an event that
// was announced on one connection is then not repeated on the others.
func New(ctx context.Context, shared Config, sc engine.Scope) *mcp.Server {
	return newConn(shared, sc).server(ctx)
}

// restorable returns the job of the checkpoint that the session of a job can continue from, if the
// variables were lost in that job and none were made since.
func (c Config) restorable(record jobs.Record) string {
	s, err := c.Backend.Session(record.Session)
	if err != nil { // it was deleted
		return ""
	}
	return s.Restorable(record.ID)
}

func newConn(shared Config, sc engine.Scope) *conn {
	var all *jobs.Registry
	sandbox := ""
	if shared.Backend != nil {
		all, sandbox = shared.Backend.Jobs(), shared.Backend.Sandbox()
	}
	if shared.Files == nil {
		shared.Files = &files.Store{}
	}
	shared.By = cmp.Or(shared.By, jobs.Agent)
	if shared.Notices == nil {
		shared.Notices = new(report.Notices)
	}
	if sc.Log == nil {
		sc.Log = slog.New(slog.DiscardHandler)
	}
	c := &conn{
		Config: shared, jobs: all, scope: sc, tools: sharedTools,
		reporter: &report.Reporter{Jobs: all, NoImages: shared.NoImages, Restorable: shared.restorable, Kept: keepText[shared.Keep], Sandbox: sandbox}, unread: delivery.NewRoom(unreadMax, shared.PictureWait),
	}
	c.resumed = sync.OnceValue(c.resumedNow)
	return c
}

func (c *conn) server(ctx context.Context) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "async-repl", Version: c.Version}, &mcp.ServerOptions{
		Instructions: c.instructions(), // and no Logger: the SDK would log every connection
		// The list of tools never changes, and logging is not offered.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{ListChanged: true}},
	})
	s.AddReceivingMiddleware(c.recovering, declared, repeated, leaving(ctx), c.changes.Follow, c.answer)
	// The SDK notifies clients of each era in its own way when a template is added. Its list of
	// templates is not used for anything else.
	c.changes.Notify = func() { s.AddResourceTemplate(resourceTemplates[0], nil) }
	context.AfterFunc(ctx, c.changes.Close)
	return s
}

// job returns a job by its whole id, which calls that change it need.
func (c *conn) job(ctx context.Context, id string) (*jobs.Job, error) {
	j, err := c.jobs.Get(id)
	return c.orAdopted(ctx, id, j, err)
}

// find returns a job by its id or a unique prefix of it.
func (c *conn) find(ctx context.Context, id string) (*jobs.Job, error) {
	j, err := c.jobs.Find(id)
	return c.orAdopted(ctx, id, j, err)
}

// answer answers requests about tools and resources in place of the SDK. For each connection, the
// SDK would check the schemas of all tools again and keep what it found: 50 KB for a session over
// HTTP. Of resources it knows neither lists that change nor queries in any order.
func (c *conn) answer(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch req := req.(type) {
		case *mcp.ListToolsRequest:
			return c.listTools(req.Params)
		case *mcp.CallToolRequest:
			return c.callTool(ctx, req)
		case *mcp.ListResourceTemplatesRequest:
			return listTemplates(req.Params)
		case *mcp.ListResourcesRequest:
			return c.listResources(req.Params)
		case *mcp.ReadResourceRequest:
			return c.readResource(ctx, req)
		}
		return next(ctx, method, req)
	}
}

// run runs a tool. Mistakes and refusals are results marked as errors.
func (c *conn) run(ctx context.Context, t *tool, req *mcp.CallToolRequest, ticket delivery.Ticket) *mcp.CallToolResult {
	defer ticket.Pass() // not only with the answer, which can have to wait for room
	a, err := t.signature().Decode(req.Params.Arguments)
	if err != nil {
		return delivery.Text(report.Textf("%s", err), true)
	}
	a.ExpandHome(c.scope.Home)
	current := &call{conn: c, args: a, ticket: ticket, progress: delivery.NewProgress(req, c.Progress), notices: c.Notices.Call()}
	ticket.OnCancel(current.notices.Cancel)
	var killed []string
	if c.By != jobs.Person { // the agent has to read it
		killed = c.Backend.Killed() // before the call, so that its reply shows what that has ended
	}
	resumed := c.resumed()                             // before the call, which changes it
	settle := func() { current.notices.Settle(false) } // runs if the call panics
	defer func() { settle() }()
	reply, err := current.do(ctx, t, req.Params.Arguments)
	if err != nil {
		reply = c.refusal(err)
		current.notices.Shows(reply.Shown()...)
	}
	if current.made {
		made := "new"
		if current.chosen != "" {
			made += ", " + current.chosen
		}
		reply.Insert("Session", made)
	}
	says := false
	for _, line := range killed {
		if current.notices.Once(line) {
			reply.Insert("Lost", line)
			says = true
		}
	}
	c.resume(current.notices, reply, resumed)
	for _, loss := range c.Backend.Losses() { // any reply announces the death of an idle Python
		if current.notices.Once(loss.Session + " " + loss.Job) {
			reply.Insert("Lost", loss.String())
		}
	}
	c.warn(current.notices, reply)
	if c.Found != nil {
		c.Found()
	}
	res, release := c.unread.Result(ctx, ticket, reply, err != nil)
	settle = func() {
		ticket.OnAnswer(func(queued bool) {
			release()
			current.notices.Settle(queued)
			if says && queued {
				c.Backend.KilledSaid()
			}
		})
	}
	return res
}

// unprotectedMax is the most files in a reply that the sandbox protects no more.
const unprotectedMax = 3

// warn says which files the sandbox protects no more, of each once.
func (c *conn) warn(notices *report.CallNotices, reply *report.Reply) {
	n := 0
	for _, line := range c.Backend.Unprotected() {
		if !notices.Once(line) {
			continue
		}
		if n++; n <= unprotectedMax {
			reply.Insert("Sandbox", line)
		}
	}
	if n > unprotectedMax {
		reply.Insert("Sandbox", fmt.Sprintf("%d more files are no longer protected: see server_status", n-unprotectedMax))
	}
}

// resume says in the first reply to a client what earlier ones have left.
func (c *conn) resume(notices *report.CallNotices, reply *report.Reply, resumed string) {
	if c.Elsewhere != nil {
		if kept := c.Elsewhere(); kept != nil && notices.Once(fmt.Sprintf("elsewhere %d", c.Resumes)) && *kept != (Kept{}) {
			reply.Insert("Kept elsewhere", kept.String()+" (async-repl ps)")
		}
	}
	if resumed != "" && notices.Once(fmt.Sprintf("resumed %d", c.Resumes)) {
		reply.Insert("Resumed", resumed)
	}
}

// resumedNow describes what earlier clients have left, or returns "".
func (c *conn) resumedNow() string {
	if c.Resumes == 0 {
		return c.Older
	}
	list, _ := c.Backend.Sessions()
	for _, p := range c.listPlaces(context.Background()) {
		list = append(list, p.Own()...)
	}
	return overview.Resumed(c.jobs.List(jobs.Filter{Status: []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput}}), list, c.Older)
}

// refusal returns the reply for an error.
func (c *conn) refusal(err error) *report.Reply {
	return refusalOf(err, c.reporter, c.offers(sessions))
}

// undeclared are the methods of capabilities that the server does not declare.
var undeclared = []string{
	"completion/complete", "logging/setLevel", "prompts/get", "prompts/list", "resources/subscribe", "resources/unsubscribe",
}

// declared refuses undeclared methods, some of which the SDK would answer.
func declared(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if slices.Contains(undeclared, method) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", method)}
		}
		return next(ctx, method, req)
	}
}

// repeated answers a repeated initialize as the first one of the connection, with the version that
// was agreed on then. The SDK (go-sdk v1.8.0) would refuse it. But the client of FastMCP 3.4 keeps a
// server on stdio between two uses, and initializes each of them; so does pydantic-ai, which is built
// on it.
func repeated(next mcp.MethodHandler) mcp.MethodHandler {
	var first atomic.Pointer[mcp.InitializeResult]
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != "initialize" {
			return next(ctx, method, req)
		}
		session, _ := req.GetSession().(*mcp.ServerSession)
		if res := first.Load(); res != nil && session != nil && session.InitializeParams() != nil {
			return res, nil
		}
		res, err := next(ctx, method, req)
		if initialized, ok := res.(*mcp.InitializeResult); ok && err == nil {
			first.Store(initialized)
		}
		return res, err
	}
}

// leaving ends the context of every request when leave is done.
func leaving(leave context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(leave, cancel)()
			return next(ctx, method, req)
		}
	}
}

// recovering answers for a handler that panics: the client learns that it was a defect, the log
// shows which, and other calls continue.
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
			c.scope.Log.Error("panic in a request", "method", method, "tool", name, "panic", p, "stack", string(debug.Stack()))
			res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			if ok {
				res, err = delivery.Text(report.Textf("Internal error: a defect of this server, described in its log. Jobs continue; list_jobs shows them."), true), nil
			}
		}()
		return next(ctx, method, req)
	}
}
