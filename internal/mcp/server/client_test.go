package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/jobs/jobstest"
)

// A client speaks to the server in raw lines.
type client struct {
	t      testing.TB
	conn   net.Conn
	lines  *bufio.Reader
	nextID int
	gone   chan error // what Serve returned
}

// scope completes the scope of a connection.
func (w *world) scope(sc engine.Scope) engine.Scope {
	sc.Grace, sc.Timeout = w.grace, w.timeout
	if sc.Log == nil {
		sc.Log = slog.New(slog.NewTextHandler(w.log, nil))
	}
	if sc.Workspace == "" {
		sc.Workspace = w.workspace
	}
	return sc
}

// connect serves one connection over a Unix socket. The client sends nothing yet.
func (w *world) connect(sc engine.Scope) *client {
	w.t.Helper()
	sc = w.scope(sc)
	return w.serve(func(ctx context.Context, conn net.Conn) error { return serve(ctx, conn, w.config, sc, w.drain) })
}

// serve serves one connection over stdio until the client leaves, or ctx is done.
func serve(ctx context.Context, rwc io.ReadWriteCloser, shared Config, sc engine.Scope, drain time.Duration) error {
	ends, leave := context.WithCancel(context.Background())
	defer leave()
	t := &stdio.Transport{Stream: rwc, Ordered: true, Cut: ctx, Leave: leave, Drain: drain, Log: sc.Log}
	session, err := New(ends, shared, sc).Connect(context.WithoutCancel(ctx), t, nil)
	if err != nil {
		return err
	}
	return session.Wait()
}

// serve lets f serve one connection.
func (w *world) serve(f func(context.Context, net.Conn) error) *client {
	w.t.Helper()
	l, err := net.Listen("unix", filepath.Join(w.t.TempDir(), "s"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	served, err := l.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	c := &client{t: w.t, conn: conn, lines: bufio.NewReader(conn), gone: make(chan error, 1)}
	go func() { c.gone <- f(w.t.Context(), served) }() // owned by the client; ends when it closes
	w.t.Cleanup(func() { c.close() })
	return c
}

// dial connects and initializes as in the older protocol.
func (w *world) dial(sc engine.Scope) *client {
	w.t.Helper()
	c := w.connect(sc)
	c.handshake()
	return c
}

func (c *client) handshake() {
	c.t.Helper()
	c.request("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "test", "version": "0"},
	})
	c.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

// close closes the connection and waits for Serve to return.
func (c *client) close() error {
	c.conn.Close()
	if c.gone == nil {
		return nil
	}
	select {
	case err := <-c.gone:
		c.gone = nil
		return err
	case <-time.After(jobstest.Patience):
		c.t.Error("Serve has not returned")
		return nil
	}
}

func (c *client) write(m any) {
	c.t.Helper()
	if _, err := c.conn.Write(append(rawjson.Of(m), '\n')); err != nil {
		c.t.Fatal(err)
	}
}

// A message is an answer of the server, or a notification.
type message struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func (c *client) read() message {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(jobstest.Patience))
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		c.t.Fatalf("%v in %s", err, line)
	}
	return m
}

// start sends a request without waiting for its answer.
func (c *client) start(method string, params any) (id int) {
	c.t.Helper()
	c.nextID++
	c.write(map[string]any{"jsonrpc": "2.0", "id": c.nextID, "method": method, "params": params})
	return c.nextID
}

func (c *client) request(method string, params any) message {
	c.t.Helper()
	id := c.start(method, params)
	m := c.read()
	if m.ID != id {
		c.t.Fatalf("answer to %d, want to %d", m.ID, id)
	}
	return m
}

type given map[string]any

func (c *client) startCall(tool string, a given) (id int) {
	c.t.Helper()
	return c.start("tools/call", map[string]any{"name": tool, "arguments": a})
}

// call calls a tool that must not refuse.
func (c *client) call(tool string, a given) string {
	c.t.Helper()
	text, isError := toolReply(c.t, c.request("tools/call", map[string]any{"name": tool, "arguments": a}))
	if isError {
		c.t.Fatalf("%s(%v) refused: %s", tool, a, text)
	}
	return text
}

// refused calls a tool that must refuse.
func (c *client) refused(tool string, a any) string {
	c.t.Helper()
	text, isError := toolReply(c.t, c.request("tools/call", map[string]any{"name": tool, "arguments": a}))
	if !isError {
		c.t.Fatalf("%s(%v) was not refused: %s", tool, a, text)
	}
	return text
}

func toolReply(t testing.TB, m message) (text string, isError bool) {
	t.Helper()
	if m.Error != nil {
		t.Fatalf("protocol error: %v", *m.Error)
	}
	var r struct {
		Content           []struct{ Type, Text string }
		IsError           bool
		StructuredContent any
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" || r.StructuredContent != nil {
		t.Fatalf("the result is not one text: %s", m.Result)
	}
	return r.Content[0].Text, r.IsError
}

var (
	ids   = regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)
	times = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`)
	clock = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	spans = regexp.MustCompile(`(_seconds\\?":)[0-9.e-]+`)
)
