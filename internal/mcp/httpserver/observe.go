package httpserver

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/serve/metrics"
)

// methodOf returns the HTTP method of a request, or "other": a client can make up methods, which
// would fill the metrics.
func methodOf(r *http.Request) string {
	if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions}, r.Method) {
		return r.Method
	}
	return "other"
}

// pathOf returns the part of the path that the server serves, or "": a client can make up the rest.
func (s *Server) pathOf(r *http.Request) string {
	switch {
	case r.URL.Path == mcpPath, r.URL.Path == healthPath:
		return r.URL.Path
	case strings.HasPrefix(r.URL.Path, filesPath):
		return filesPath
	case s.config.Page == nil:
	case strings.HasPrefix(r.URL.Path, apiPath):
		return apiPath
	case r.URL.Path == loginPath, r.URL.Path == logoutPath:
		return r.URL.Path
	case isPage(r.URL.Path):
		return "/"
	}
	return ""
}

// result returns the result of a request that has ended in the state s.
func (x *exchange) result(s *state) metrics.Result {
	switch {
	case s.seen.Status >= 400:
		return metrics.Refused
	case s.fate == cancelled:
		return metrics.Cancelled
	case s.first == handled:
		return s.seen.Result
	case s.seen.Status == http.StatusSwitchingProtocols: // the answer; the client leaves when it likes
	case s.seen.Tool != "", x.client.Err() != nil && s.seen.Bytes == 0:
		return metrics.Closed
	}
	return metrics.OK
}

// toolOf returns the name of the tool that a request calls, or "" if there is no such tool. A name
// that the client made up is neither counted nor logged.
func (s *Server) toolOf(req mcp.Request) string {
	call, ok := req.(*mcp.CallToolRequest)
	if !ok || call.Params == nil || !slices.Contains(s.config.Tools, call.Params.Name) {
		return ""
	}
	return call.Params.Name
}

// outcome returns the result of a call and the id of the job that its reply is about, or "" if it
// is about none.
func outcome(res mcp.Result, err error) (result metrics.Result, job string) {
	if err != nil {
		return metrics.Error, ""
	}
	text, isError := said(res)
	if isError {
		return metrics.Error, ""
	}
	headers, _, _ := strings.Cut(text, "\n\n") // the rest is output of a job
	for line := range strings.Lines(headers) {
		if id, ok := strings.CutPrefix(line, "Job ID: "); ok {
			return metrics.OK, strings.TrimSpace(id)
		}
	}
	return metrics.OK, ""
}

// said returns the first text of a tool's result and reports whether the result is an error. A
// result of package delivery returns both itself.
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
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
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

// ReadFrom implements io.ReaderFrom, so that the kernel copies files (sendfile).
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

// Unwrap returns the wrapped writer to http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
