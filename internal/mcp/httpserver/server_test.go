package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// both are the versions of the protocol that tests speak: one of each era.
var both = []string{"2026-07-28", "2025-11-25"}

// A tool answers one call.
type tool func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error)

func say(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// withTools returns a configuration of servers with these tools, which end with their connection.
func withTools(tools map[string]tool, c Config) Config {
	c.New = func(leave context.Context, _ Caller) *MCPServer {
		server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "0"}, nil)
		for name, f := range tools {
			server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(leave, cancel)()
				return f(ctx, req)
			})
		}
		return server
	}
	return c
}

// serving starts a server of tools and returns its URL.
func serving(t *testing.T, tools map[string]tool, c Config) (url string) {
	t.Helper()
	s := New(withTools(tools, c))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }() // owned by the test, which waits for it
	t.Cleanup(func() {
		s.Shutdown(t.Context())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + mcpPath
}

// connect returns a client of that version.
func connect(t *testing.T, url, version string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the protocol is %s, not %s", got, version)
	}
	return session
}

// TestOrigin: a page of another server, and a name that leads here only since it was rebound, are
// refused.
func TestOrigin(t *testing.T) {
	t.Parallel()
	s := New(Config{Origins: []string{"https://app.example"}, PublicURL: "https://repl.example/base"})
	for _, test := range []struct {
		host, origin string
		allowed      bool
	}{
		{"127.0.0.1:8000", "", true},
		{"localhost:8000", "", true},
		{"[::1]:8000", "", true},
		{"LOCALHOST", "", true},
		{"evil.example", "", false},
		{"evil.example:8000", "http://evil.example:8000", false},
		{"localhost.evil.example", "", false},
		{"127.0.0.1:8000", "http://127.0.0.1:8000", true},
		{"localhost", "http://localhost:80", true},
		{"localhost", "https://localhost:443", true},
		{"localhost:80", "http://LOCALHOST", true},
		{"127.0.0.1:8000", "http://127.0.0.1:8001", false},
		{"127.0.0.1:8000", "http://localhost:8000", false},
		{"127.0.0.1:8000", "https://evil.example", false},
		{"127.0.0.1:8000", "https://app.example", true},
		{"127.0.0.1:8000", "http://app.example", false},
		{"repl.example", "https://repl.example", true},
		{"127.0.0.1:8000", "https://repl.example", true}, // a proxy that passes on no Host
		{"127.0.0.1:8000", "http://repl.example", false},
		{"127.0.0.1:8000", "https://repl.example:8443", false},
		{"127.0.0.1:8000", "https://repl.example.evil.example", false},
		{"127.0.0.1:8000", "null", false},
		{"127.0.0.1:8000", "file://127.0.0.1:8000", false},
	} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		r.Host = test.host
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		if why := s.whyForeign(r); (why == "") != test.allowed {
			t.Errorf("host %s, origin %s: %q", test.host, test.origin, why)
		}
	}
}

// TestListedPage: a page elsewhere that is listed may ask, call and read the answer. Browsers ask
// without the token.
func TestListedPage(t *testing.T) {
	t.Parallel()
	config := Config{Origins: []string{"https://app.example"}, Find: func(string) (Caller, bool) { return Caller{}, false }}
	inBubble(t, nil, config, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		ask := "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,mcp-name\r\n"
		for _, test := range []struct {
			origin, method, headers string
			status                  int
			allowed                 string
		}{
			{"https://app.example", http.MethodOptions, ask, http.StatusNoContent, "https://app.example"},
			{"https://app.example", http.MethodPost, "", http.StatusUnauthorized, "https://app.example"},
			{"https://app.example", http.MethodOptions, "", http.StatusUnauthorized, "https://app.example"},
			{"https://other.example", http.MethodOptions, ask, http.StatusForbidden, ""},
			{"http://localhost", http.MethodOptions, ask, http.StatusUnauthorized, ""},
		} {
			answer, _ := roundTrip(t, c, message{method: test.method, headers: test.headers + "Origin: " + test.origin + "\r\n"})
			if got := answer.Header.Get("Access-Control-Allow-Origin"); answer.StatusCode != test.status || got != test.allowed {
				t.Errorf("%s %s: %s, %q", test.method, test.origin, answer.Status, got)
			}
			if asked, may := answer.StatusCode == http.StatusNoContent, answer.Header.Get("Access-Control-Allow-Headers"); asked && may != "authorization,mcp-name" {
				t.Errorf("the headers %q are allowed", may)
			}
		}
	})
}

// TestFilesOfListedPage: a page elsewhere that is listed may use files and their tags. What a page
// asks for without saying so, as a script or an image, is still known to be from elsewhere.
func TestFilesOfListedPage(t *testing.T) {
	t.Parallel()
	s := New(Config{Origins: []string{"https://app.example"}, Files: func(Caller) Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.URL.Path+" "+r.Header.Get("Sec-Fetch-Site"))
		})
	}})
	for origin, want := range map[string]string{"https://app.example": "f ", "": "f cross-site"} {
		r := httptest.NewRequest("GET", "/files/f", nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		if got := w.Body.String(); got != want || strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "ETag") != (origin != "") {
			t.Errorf("%q: %d %q %v", origin, w.Code, got, w.Header())
		}
	}
}

// TestParseURL: the URL of the server and that of its protocol mean the same.
func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://a.example":           "https://a.example",
		"https://a.example/":          "https://a.example",
		"https://a.example/mcp":       "https://a.example",
		"https://a.example/base/mcp/": "https://a.example/base",
		"http://a.example:80/xmcp":    "http://a.example:80/xmcp",
		"a.example":                   "",
		"https://a.example/mcp?x":     "",
	} {
		if got, err := ParseURL(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
