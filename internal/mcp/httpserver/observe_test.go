package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/test/polltest"
)

const jobID = "01M0WZ5JN3Q0R1ZC5D0J8V7K2T"

// next returns the next request of that method.
func next(t *testing.T, requests <-chan metrics.Request, method string) metrics.Request {
	t.Helper()
	patience := time.After(polltest.Patience)
	for {
		select {
		case r := <-requests:
			if r.Method == method {
				return r
			}
		case <-patience:
			t.Fatalf("no request %s was reported", method)
		}
	}
}

// Each call is reported with its tool, its job and how it went, and nothing that a client made up.
func TestObservedCalls(t *testing.T) {
	t.Parallel()
	const rest = "\nStatus: completed\n\n--- STDOUT ---\nJob ID: forged\n"
	requests := make(chan metrics.Request, 100) // more than the test makes
	config := Config{Observe: func(r metrics.Request) { requests <- r }, Tools: []string{"list_jobs", "works", "prints", "fails"}}
	url := serving(t, map[string]tool{
		"works": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return say("Job ID: " + jobID + rest), nil
		},
		"prints": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return say(rest), nil },
		"fails": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := say("no")
			r.IsError = true
			return r, nil
		},
	}, config)
	for i, version := range both {
		session := connect(t, url, version)
		era := []string{"2026-07-28", "initialize"}[i]
		for name, want := range map[string]metrics.Request{
			"works":  {Tool: "works", Job: jobID, Result: metrics.OK},
			"prints": {Tool: "prints", Result: metrics.OK},
			"fails":  {Tool: "fails", Result: metrics.Error},
			// The SDK answers calls of tools that there are not with an error, in the newer era also of
			// HTTP.
			"list_jobs": {Tool: "list_jobs"}, // others have it
			"secret":    {},
		} {
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"a": 1}})
			if name == "works" && (err != nil || r.Content[0].(*mcp.TextContent).Text != "Job ID: "+jobID+rest) {
				t.Errorf("the client reads %+v, %v", r, err)
			}
			got := next(t, requests, "tools/call")
			if got.Time.IsZero() || got.Duration <= 0 || got.Bytes <= 0 {
				t.Errorf("%s: %+v", name, got)
			}
			want.Tenant, want.Era, want.Method, want.Path = defaultTenant, era, "tools/call", mcpPath
			want.Time, want.Duration, want.Bytes, want.Status = got.Time, got.Duration, got.Bytes, http.StatusOK
			if want.Result == "" {
				want.Result = metrics.Error
				if i == 0 {
					want.Status, want.Result = http.StatusBadRequest, metrics.Refused
				}
			}
			if got != want {
				t.Errorf("%q: got %+v, want %+v", name, got, want)
			}
		}
	}
}

// A call whose client leaves is reported as closed, with its job.
func TestObservedCallThatIsClosed(t *testing.T) {
	t.Parallel()
	seen := make(chan metrics.Request, 100) // more than the test makes
	config := Config{Observe: func(r metrics.Request) { seen <- r }, Tools: []string{"tool"}}
	tools := map[string]tool{"tool": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return say("Job ID: " + jobID), nil
	}}
	for _, leaves := range []bool{true, false} {
		inBothEras(t, tools, config, func(t *testing.T, s *Server, dial func() net.Conn, call message) {
			c := dial()
			send(t, c, call)
			synctest.Wait()
			want := metrics.Closed
			if leaves {
				c.Close()
			} else {
				want = metrics.OK
				s.leave()
				_, r := receive(t, c)
				io.ReadAll(r)
			}
			if got := next(t, seen, "tools/call"); got.Tool != "tool" || got.Job != jobID || got.Result != want {
				t.Errorf("%+v, want %s", got, want)
			}
			synctest.Wait()
			for len(seen) > 0 {
				if got := <-seen; got.Tool != "" {
					t.Errorf("reported again: %+v", got)
				}
			}
		})
	}
}

// Requests are distinguished by their paths and methods, without what a client made up. Those that
// are refused are reported too.
func TestObservedRequests(t *testing.T) {
	t.Parallel()
	seen := make(chan metrics.Request, 1) // one at a time
	s := New(withTools(nil, Config{Observe: func(r metrics.Request) { seen <- r }, Files: func(Caller) Handler { return http.NotFoundHandler() }}))
	for _, test := range []struct{ method, url, origin, wantMethod, wantPath string }{
		{"HEAD", "http://localhost/mcp", "", "HEAD", "/mcp"},
		{"HEAD", "http://localhost/healthz", "", "HEAD", "/healthz"},
		{"HEAD", "http://localhost/files/secret", "", "HEAD", "/files/"},
		{"HEAD", "http://localhost/secret", "", "HEAD", ""},
		{"POST", "http://localhost/mcp", "http://elsewhere.example", "POST", "/mcp"},
		{"SECRET", "http://localhost/mcp", "http://elsewhere.example", "other", "/mcp"},
	} {
		r := httptest.NewRequest(test.method, test.url, strings.NewReader("{}"))
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		s.http.Handler.ServeHTTP(httptest.NewRecorder(), r)
		got := <-seen
		if got.Method != test.wantMethod || got.Path != test.wantPath {
			t.Errorf("%s %s: %+v", test.method, test.url, got)
		}
		if test.origin != "" && (got.Status != http.StatusForbidden || got.Result != metrics.Refused || got.Tenant != "") {
			t.Errorf("%s of a page elsewhere: %+v", test.method, got)
		}
	}
}

// A request with several messages, which some versions of the older era allow, is reported with one
// of them, and the others each on their own.
func TestObservedBatch(t *testing.T) {
	t.Parallel()
	seen := make(chan metrics.Request, 10)
	s := New(Config{Observe: func(r metrics.Request) { seen <- r }, Tools: []string{"a", "b"}})
	handle := s.handling(func(context.Context, string, mcp.Request) (mcp.Result, error) {
		return say("Job ID: " + jobID + "\n"), nil
	})
	h := s.exchanging(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r)
		x.waits = r.Context()
		r = x.attach(r, defaultTenant)
		for _, name := range []string{"a", "b", "a"} {
			req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name}, Extra: &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context())}}
			if _, err := handle(r.Context(), "tools/call", req); err != nil {
				t.Error(err)
			}
		}
	}))
	server := httptest.NewServer(h)
	defer server.Close()
	res, err := http.Post(server.URL, "application/json", strings.NewReader("[]"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	for _, tool := range []string{"b", "a", "a"} {
		if got := next(t, seen, "tools/call"); got.Tool != tool || got.Job != jobID {
			t.Errorf("got %+v, want %s", got, tool)
		}
	}
}
