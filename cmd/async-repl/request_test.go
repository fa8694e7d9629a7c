package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
)

// A request is one message to a server, as a test writes it.
type request struct {
	url, token, session string
	transport           http.RoundTripper
	method, message     string
	body                io.Reader // in place of the message, if it is sent in parts
}

func put(url, token, content string) request {
	return request{method: http.MethodPut, url: url, token: token, message: content}
}

func get(url, token string) request { return request{method: http.MethodGet, url: url, token: token} }

const (
	hello    = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	listJobs = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_jobs","arguments":{}}}`
)

// send returns the answer, whose body the test reads or leaves.
func (r request) send(t testing.TB) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	if r.method == "" {
		r.method = http.MethodPost
	}
	if r.body == nil {
		r.body = strings.NewReader(r.message)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, r.body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.session != "" {
		req.Header.Set("Mcp-Session-Id", r.session)
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	if r.transport == nil {
		r.transport = http.DefaultTransport
	}
	return r.transport.RoundTrip(req) // a client would clean the path
}

// answer returns the status and the whole body of the answer.
func (r request) answer(t testing.TB) (int, string) {
	t.Helper()
	res, err := r.send(t)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// begin begins a session of the older era and returns its id.
func (r request) begin(t testing.TB) string {
	t.Helper()
	r.message = hello
	res, err := r.send(t)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	id := res.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("%s: no session", res.Status)
	}
	return id
}

// newerClient returns a client of the newer era.
func newerClient(t testing.TB, url, token string) *started {
	t.Helper()
	return clientOver(t, url, token, nil)
}

func clientOver(t testing.TB, url, token string, over http.RoundTripper) *started {
	t.Helper()
	c := client.NewHTTP(client.HTTP{URL: url, Version: client.Newer, Token: token, Transport: over})
	return &started{Client: c, t: t, log: new(lockedBuffer)}
}

// overSocket connects to a Unix socket, whatever the URL says.
func overSocket(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}
