package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// eras are the versions that the tests speak.
var eras = map[string]string{"older": Older, "newer": Newer}

// library is the SDK's server over HTTP, in both eras. Its tool echoes "text", or waits until its
// request is closed; events then receives when it begins and when it ends.
func library(t *testing.T, events chan<- string) (url string, requests func() []*http.Request) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "0"}, nil)
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args struct {
				Text string
				Wait bool
			}
			if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
				return nil, err
			}
			if args.Wait {
				events <- "begun"
				<-ctx.Done()
				events <- "closed"
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: args.Text}}, IsError: args.Text == "bad"}, nil
		})
	get := func(*http.Request) *mcp.Server { return s }
	older := mcp.NewStreamableHTTPHandler(get, nil)
	newer := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	var mu sync.Mutex
	var seen []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r)
		mu.Unlock()
		if r.Header.Get("Mcp-Protocol-Version") >= Newer {
			newer.ServeHTTP(w, r)
		} else {
			older.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// The SDK's server, which checks what a client sends, understands the client in both eras.
func TestHTTP(t *testing.T) {
	for name, version := range eras {
		t.Run(name, func(t *testing.T) {
			url, requests := library(t, nil)
			c := NewHTTP(HTTP{URL: url, Version: version, Token: "secret"})
			if err := c.Initialize(ctx(t)); err != nil {
				t.Fatal(err)
			}
			var group sync.WaitGroup
			for n := range 50 {
				group.Go(func() {
					text := fmt.Sprint("call ", n)
					if r, err := c.Call(ctx(t), "echo", map[string]any{"text": text}); err != nil || string(r) != text {
						t.Errorf("%s is answered with %q, %v", text, r, err)
					}
				})
			}
			group.Wait()
			if _, err := c.Call(ctx(t), "echo", map[string]any{"text": "bad"}); !errors.Is(err, ErrTool) {
				t.Errorf("a refusal is %v", err)
			}
			if _, err := c.Request(ctx(t), "no/such", nil); err == nil || !strings.Contains(err.Error(), "no/such: ") {
				t.Errorf("an unknown method is %v", err)
			}
			for range 2 { // the second time there is no session to end, if there ever was one
				if err := c.Leave(ctx(t)); err != nil {
					t.Error(err)
				}
			}
			deleted := 0
			for _, r := range requests() {
				if r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("a request has the headers %v", r.Header)
				}
				if r.Method == http.MethodDelete {
					deleted++
				}
			}
			if want := map[string]int{Older: 1}[version]; deleted != want {
				t.Errorf("%d sessions were ended, not %d", deleted, want)
			}
		})
	}
}

// A caller that stops waiting closes its request, which the newer era takes for a cancel.
func TestHTTPCallerStopsWaiting(t *testing.T) {
	events := make(chan string)
	url, _ := library(t, events)
	c := NewHTTP(HTTP{URL: url, Version: Newer})
	p, err := c.Start("echo", map[string]any{"wait": true})
	if err != nil {
		t.Fatal(err)
	}
	<-events
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Reply(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-events
	if r, err := c.Call(ctx(t), "echo", map[string]any{"text": "on"}); err != nil || r != "on" {
		t.Errorf("then %q, %v", r, err)
	}
}

// What a server can answer, and what the client makes of it.
func TestHTTPResponses(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}`
	for name, test := range map[string]struct {
		status int
		kind   string
		body   string
		want   Reply
		err    string
	}{
		"JSON":               {200, "application/json", answer, "a", ""},
		"an event":           {200, "text/event-stream", "data: " + answer + "\n\n", "a", ""},
		"parameters":         {200, "text/event-stream; charset=utf-8", "data:" + answer + "\r\n\r\n", "a", ""},
		"comments and names": {200, "text/event-stream", ": \n\n: \n\nid: 1\nevent: message\ndata: " + answer + "\n\n", "a", ""},
		"lines of one event": {200, "text/event-stream", "data: " + answer[:7] + "\ndata: " + answer[7:] + "\n\n", "a", ""},
		"progress first":     {200, "text/event-stream", `data: {"method":"notifications/progress"}` + "\n\ndata: " + answer + "\n\n", "a", ""},
		"an early end":       {200, "text/event-stream", ": \n\ndata: " + answer + "\n", "", "greet: the response ended without an answer: EOF"},
		"nothing":            {200, "application/json", "", "", "greet: the response ended without an answer: EOF"},
		"not JSON":           {200, "application/json", "hello", "", `greet: the server sent what is not a message: "hello"`},
		"a refusal":          {403, "text/plain", "Forbidden\n", "", "greet: HTTP status 403 Forbidden: Forbidden"},
		"an error":           {400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no"}}`, "", "greet: error -32001: no"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			defer server.Close()
			c := NewHTTP(HTTP{URL: server.URL, Version: Newer})
			defer c.Leave(ctx(t))
			got, err := c.Call(ctx(t), "greet", nil)
			if text := fmt.Sprint(err); got != test.want || test.err == "" && err != nil || test.err != "" && text != test.err {
				t.Errorf("%q, %v; want %q, %s", got, err, test.want, test.err)
			}
		})
	}
}

// Files are beside the MCP endpoint, behind the same token.
func TestHTTPFiles(t *testing.T) {
	var stored string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/files/a b/c.txt" {
			http.Error(w, "no such file", http.StatusNotFound)
			return
		}
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			stored = string(body)
		}
		io.WriteString(w, stored)
	}))
	defer server.Close()
	h := HTTP{URL: server.URL + "/mcp", Token: "secret"}
	if err := h.PutFile(ctx(t), "a b/c.txt", "text"); err != nil || stored != "text" {
		t.Errorf("stored is %q, %v", stored, err)
	}
	if got, err := h.GetFile(ctx(t), "a b/c.txt"); err != nil || got != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := h.GetFile(ctx(t), "d"); err == nil || err.Error() != "HTTP status 404 Not Found: no such file" {
		t.Errorf("error %v", err)
	}
}

func TestHTTPWithoutAServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if err := NewHTTP(HTTP{URL: server.URL, Version: Older}).Initialize(ctx(t)); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v", err)
	}
	if err := NewHTTP(HTTP{URL: "http://[", Version: Older}).Initialize(ctx(t)); err == nil {
		t.Error("an address that is none was taken")
	}
}
