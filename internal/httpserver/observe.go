package httpserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/metrics"
)

// An observer reports the requests of a server and their calls.
type observer struct {
	report func(metrics.Request)
	tools  []string
}

// observed returns a handler that serves as h does and reports what it has served, if
// Config.Observe is set.
func (s *Server) observed(h http.Handler) http.Handler {
	if s.config.Observe == nil {
		return h
	}
	o := &observer{report: s.config.Observe, tools: s.config.Tools}
	unobserved := s.config.New
	s.config.New = func(ctx context.Context, c Caller) *MCPServer {
		server := unobserved(ctx, c)
		if server != nil {
			server.AddReceivingMiddleware(o.calls)
		}
		return server
	}
	return o.watch(h)
}

// An observation is what is known of a request. A nil one ignores everything.
type observation struct {
	observer *observer
	request  context.Context // done when the client has left

	mu        sync.Mutex
	seen      metrics.Request
	handled   bool // a message of the request is handled
	called    bool // seen has the result of a call
	ended     bool // the request has ended
	left      bool // it ended without its answer
	cancelled bool // by a message of the client
	reported  bool // seen has been reported
}

type observationKey struct{}

// observationOf returns the observation of a request, or nil.
func observationOf(r *http.Request) *observation {
	o, _ := r.Context().Value(observationKey{}).(*observation)
	return o
}

// watch returns a handler that serves as h does and reports each request at its end.
func (o *observer) watch(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		seen := &observation{observer: o, request: r.Context(), seen: metrics.Request{Time: time.Now(), Method: methodOf(r), Path: pathOf(r)}}
		r = r.WithContext(context.WithValue(r.Context(), observationKey{}, seen))
		w := &countingWriter{ResponseWriter: rw}
		defer func() { seen.end(w, r) }()
		h.ServeHTTP(w, r)
	})
}

// methodOf returns the method of HTTP, of which a client can make up any.
func methodOf(r *http.Request) string {
	if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions}, r.Method) {
		return r.Method
	}
	return "other"
}

// pathOf returns the path of a request as far as the server knows it: a client can make up the
// rest.
func pathOf(r *http.Request) string {
	switch {
	case r.URL.Path == mcpPath, r.URL.Path == healthPath:
		return r.URL.Path
	case strings.HasPrefix(r.URL.Path, filesPath):
		return filesPath
	}
	return ""
}

// by notes who makes a request of which era.
func (o *observation) by(who Caller, era string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.Tenant, o.seen.Era = who.Tenant, era
}

// cancel notes that the client has cancelled the request, which has no answer.
func (o *observation) cancel() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cancelled = o.request.Err() == nil // or else it has left
}

// end reports the request, which w has answered. If its call has not ended yet, finish reports it,
// with the job.
func (o *observation) end(w *countingWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.Duration, o.seen.Status, o.seen.Bytes = time.Since(o.seen.Time), w.status, w.written
	switch {
	case w.status >= 400:
		o.seen.Result = metrics.Refused
	case o.cancelled:
		o.seen.Result = metrics.Cancelled
	case o.called:
	case o.seen.Tool != "" || r.Context().Err() != nil && w.written == 0:
		o.seen.Result = metrics.Closed
	default:
		o.seen.Result = metrics.OK
	}
	o.ended, o.left = true, o.seen.Result == metrics.Closed || o.cancelled
	if !o.handled || o.called {
		o.report()
	}
}

func (o *observation) report() {
	o.reported = true
	o.observer.report(o.seen)
}

// calls is the middleware that notes the method of a request's message and how its call went.
func (o *observer) calls(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c := callOf(req)
		if c == nil || c.seen == nil {
			return next(ctx, method, req)
		}
		seen, call := c.seen, metrics.Request{Time: time.Now(), Method: method, Tool: o.toolOf(req)}
		seen.begin(call)
		res, err := next(ctx, method, req)
		call.Duration = time.Since(call.Time)
		call.Result, call.Job = outcome(res, err)
		seen.finish(call)
		return res, err
	}
}

// begin notes that a message of the request is handled.
func (o *observation) begin(call metrics.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handled = true
	if !o.called && o.seen.Tool == "" {
		o.seen.Method, o.seen.Tool = call.Method, call.Tool
	}
}

// finish notes the end of a call. If the request had another one before, as a batch of the older
// era can, it is reported on its own.
func (o *observation) finish(call metrics.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.reported:
	case o.called || o.seen.Tool != call.Tool:
		call.Tenant, call.Era, call.Path, call.Status = o.seen.Tenant, o.seen.Era, o.seen.Path, http.StatusOK
		o.observer.report(call)
	default:
		o.called, o.seen.Job = true, call.Job
		switch {
		case o.left, o.seen.Status >= 400:
		case !o.ended && o.request.Err() != nil:
			o.seen.Result = metrics.Closed
		default:
			o.seen.Result = call.Result
		}
		if o.ended {
			o.report()
		}
	}
}

// toolOf returns the name of the tool that a request calls, or "" if there is no such tool: what is
// only a client's text is neither counted nor logged.
func (o *observer) toolOf(req mcp.Request) string {
	call, ok := req.(*mcp.CallToolRequest)
	if !ok || call.Params == nil || !slices.Contains(o.tools, call.Params.Name) {
		return ""
	}
	return call.Params.Name
}

// outcome returns how a call went and the id of the job that its reply is about, or "".
func outcome(res mcp.Result, err error) (result metrics.Result, job string) {
	if err != nil {
		return metrics.Error, ""
	}
	text, isError := said(res)
	if isError {
		return metrics.Error, ""
	}
	headers, _, _ := strings.Cut(text, "\n\n") // output follows, which is not the server's
	for line := range strings.Lines(headers) {
		if id, ok := strings.CutPrefix(line, "Job ID: "); ok {
			return metrics.OK, strings.TrimSpace(id)
		}
	}
	return metrics.OK, ""
}

// said returns the text that the result of a tool begins with, and whether it is an error. The
// result can be of a type of package delivery.
func said(res mcp.Result) (text string, isError bool) {
	switch r := res.(type) {
	case interface{ Said() (string, bool) }:
		return r.Said()
	case *mcp.CallToolResult:
		if len(r.Content) > 0 {
			if block, ok := r.Content[0].(*mcp.TextContent); ok {
				text = block.Text
			}
		}
		return text, r.IsError
	}
	return "", false
}

// A countingWriter remembers the status of an answer and counts its bytes.
type countingWriter struct {
	http.ResponseWriter
	status  int
	written int64
}

func (w *countingWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.begin()
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// ReadFrom lets the kernel copy files.
func (w *countingWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	n, err := io.Copy(w.ResponseWriter, r)
	w.written += n
	return n, err
}

func (w *countingWriter) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// Unwrap is for http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
