package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// inBubble runs a test of a server in a bubble of time: its connections are pipes, and what takes
// minutes takes none.
func inBubble(t *testing.T, tools map[string]tool, c Config, test func(t *testing.T, s *Server, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(withTools(tools, c))
		l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error)
		go func() { served <- s.Serve(l) }() // owned by the test, which waits for it
		defer func() {
			s.Shutdown(context.Background())
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		test(t, s, func() net.Conn { return l.dial(t) })
	})
}

// A pipes listener accepts pipes.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	p.conns <- theirs
	t.Cleanup(func() { ours.Close() })
	return ours
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A message is a request to send as it stands.
type message struct {
	method  string // POST if empty
	headers string // lines
	body    string
}

func (m message) String() string {
	if m.method == "" {
		m.method = http.MethodPost
	}
	return fmt.Sprintf("%s /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s",
		m.method, m.headers, len(m.body), m.body)
}

// callOfEra returns a call of a tool. session is that of the older era; "": the newer one.
func callOfEra(session, tool string) message {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{}%s}}`
	if session != "" {
		return message{headers: "Mcp-Session-Id: " + session + "\r\nMcp-Protocol-Version: 2025-11-25\r\n", body: fmt.Sprintf(call, tool, "")}
	}
	meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	return message{
		headers: "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: " + tool + "\r\n",
		body:    fmt.Sprintf(call, tool, meta),
	}
}

// send sends a request, and more does not wait for the answer.
func send(t *testing.T, c net.Conn, what fmt.Stringer) {
	t.Helper()
	if _, err := io.WriteString(c, what.String()); err != nil {
		t.Fatal(err)
	}
}

// receive reads the head of an answer.
func receive(t *testing.T, c net.Conn) (*http.Response, *bufio.Reader) {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer, bufio.NewReader(answer.Body)
}

// roundTrip sends a request and returns the answer.
func roundTrip(t *testing.T, c net.Conn, what fmt.Stringer) (*http.Response, string) {
	t.Helper()
	send(t, c, what)
	answer, r := receive(t, c)
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

// hello is the first message of a client of the older era.
var hello = message{body: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`}

// initialize begins a session of the older era and returns its id.
func initialize(t *testing.T, c net.Conn) string {
	t.Helper()
	answer, body := roundTrip(t, c, hello)
	id := answer.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("no session: %s %s", answer.Status, body)
	}
	roundTrip(t, c, message{headers: "Mcp-Session-Id: " + id + "\r\n", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`})
	return id
}

// inBothEras runs a test of one call in each era.
func inBothEras(t *testing.T, tools map[string]tool, c Config, test func(t *testing.T, s *Server, dial func() net.Conn, call message)) {
	t.Helper()
	for _, name := range []string{"newer era", "older era"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tools, c, func(t *testing.T, s *Server, dial func() net.Conn) {
				session := ""
				if name == "older era" {
					session = initialize(t, dial())
				}
				test(t, s, dial, callOfEra(session, "tool"))
			})
		})
	}
}

// line reads one line.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text, "\n")
}
