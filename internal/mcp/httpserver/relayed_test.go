package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
)

// A behind is the process of a tenant, played in the bubble of the test and reached over pipes.
type behind struct {
	l *pipes

	mu    sync.Mutex
	conns []net.Conn // the process's ends of the connections
	dials int
	fails error // the error of Dial
	down  bool
}

func (b *behind) Dial(context.Context) (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dials++; b.fails != nil {
		return nil, b.fails
	}
	b.down = false
	ours, theirs := net.Pipe()
	b.conns = append(b.conns, theirs)
	b.l.conns <- theirs
	return ours, nil
}

func (b *behind) Running() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.down && b.dials > 0
}

func (b *behind) Lost(error) string { return "All jobs of this tenant are lost." }

// die closes all connections, as the kernel does for a process that ends.
func (b *behind) die() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
	b.conns, b.down = nil, true
}

func (b *behind) times() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dials
}

// relaying runs a test of a server that passes requests on to a process that serves inner.
func relaying(t *testing.T, serve func(net.Listener) error, end func(), outer Config, test func(t *testing.T, s *Server, b *behind, dial func() net.Conn)) {
	t.Helper()
	b := &behind{l: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}}
	tenant := relay.New(b, func(status string) bool { return status != "odd" }, slog.New(slog.DiscardHandler))
	outer.Relay = func(Caller) *relay.Tenant { return tenant }
	served := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(served)
		serve(b.l)
	}()
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := New(outer)
	serving := make(chan error)
	go func() { serving <- s.Serve(l) }() // owned by the test, which waits for it
	defer func() {
		s.Shutdown(context.Background())
		if err := <-serving; err != nil {
			t.Error(err)
		}
		tenant.Close()
		end()
		<-served
	}()
	test(t, s, b, func() net.Conn { return l.dial(t) })
}

// passing runs a test of a server before a process with these tools.
func passing(t *testing.T, tools map[string]tool, inner, outer Config, test func(t *testing.T, s *Server, b *behind, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inner := withTools(tools, inner)
		inner.Find = func(token string) (Caller, bool) { return Caller{Tenant: "tenant", Token: token}, true }
		var s *Server
		inner.Counts = func() metrics.Counts {
			return metrics.Counts{Jobs: map[string]int{"running": 1, "odd": 2}, Output: 1 << 60, MCPSessions: s.Load().Sessions}
		}
		s = New(inner)
		relaying(t, s.Serve, func() { s.Shutdown(context.Background()) }, outer, test)
	})
}

// before runs a test of a server before a process that answers with h.
func before(t *testing.T, h http.HandlerFunc, outer Config, test func(t *testing.T, s *Server, b *behind, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &http.Server{Handler: h}
		relaying(t, s.Serve, func() { s.Close() }, outer, test)
	})
}

// inBothErasRelayed runs a test of one call in each era.
func inBothErasRelayed(t *testing.T, tools map[string]tool, outer Config, test func(t *testing.T, s *Server, b *behind, dial func() net.Conn, call message)) {
	t.Helper()
	for _, name := range []string{"newer era", "older era"} {
		t.Run(name, func(t *testing.T) {
			passing(t, tools, Config{Tools: outer.Tools}, outer, func(t *testing.T, s *Server, b *behind, dial func() net.Conn) {
				session := ""
				if name == "older era" {
					session = initialize(t, dial())
				}
				test(t, s, b, dial, callOfEra(session, "tool"))
			})
		})
	}
}

// TestRelayedCall: a call that is passed on is answered as one that is served here, and kept alive.
func TestRelayedCall(t *testing.T) {
	t.Parallel()
	var answer chan struct{}
	tools := waitingFor(&answer)
	var direct, passedOn []string
	run := func(t *testing.T, dial func() net.Conn, call message) string {
		answer = make(chan struct{})
		c := dial()
		send(t, c, call)
		head, r := receive(t, c)
		time.Sleep(aliveEvery + time.Second)
		close(answer)
		body, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(head.Status, head.Header.Get("Content-Type"), head.Header.Get(unbuffered), head.Header.Get("Cache-Control"), string(body))
	}
	inBothEras(t, tools, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn, call message) {
		direct = append(direct, run(t, dial, call))
	})
	inBothErasRelayed(t, tools, Config{}, func(t *testing.T, _ *Server, b *behind, dial func() net.Conn, call message) {
		passedOn = append(passedOn, run(t, dial, call))
	})
	for i := range direct {
		if direct[i] != passedOn[i] || !strings.Contains(direct[i], ": \n\n: \n\n") {
			t.Errorf("passed on: %q\nserved here: %q", passedOn[i], direct[i])
		}
	}
}

// TestRelayedConnections: a connection to the process serves many requests, and is closed when it has
// had none for some time, before the process closes it.
func TestRelayedConnections(t *testing.T) {
	t.Parallel()
	tools := map[string]tool{"tool": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return say("x"), nil }}
	passing(t, tools, Config{}, Config{}, func(t *testing.T, _ *Server, b *behind, dial func() net.Conn) {
		for range 100 {
			if _, body := roundTrip(t, dial(), callOfEra("", "tool")); !strings.Contains(body, `"text":"x"`) {
				t.Fatal(body)
			}
		}
		if got := b.times(); got != 1 {
			t.Errorf("%d connections for calls one at a time", got)
		}
		time.Sleep(idleTime - time.Second)
		roundTrip(t, dial(), callOfEra("", "tool"))
		if got := b.times(); got != 2 {
			t.Errorf("%d connections after a long pause", got)
		}
	})
}

// TestRelayedSession: the streams and the end of a session are passed on.
func TestRelayedSession(t *testing.T) {
	t.Parallel()
	var answer chan struct{}
	passing(t, waitingFor(&answer), Config{}, Config{}, func(t *testing.T, s *Server, b *behind, dial func() net.Conn) {
		answer = make(chan struct{})
		c, events := dial(), dial()
		id := initialize(t, c)
		send(t, events, message{method: http.MethodGet, headers: "Mcp-Session-Id: " + id + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"})
		_, stream := receive(t, events)
		for i, want := range []string{": ok", "", ": ", ""} {
			if got := line(t, stream); got != want {
				t.Errorf("line %d is %q, not %q", i, got, want)
			}
		}
		calling := dial()
		send(t, calling, callOfEra(id, "tool"))
		synctest.Wait()
		if got := s.Load(); got.Calls != 1 || got.Sessions != 0 {
			t.Errorf("%+v", got)
		}
		answered := make(chan string)
		go func() { // owned by the test, which waits for it
			_, r := receive(t, calling)
			body, _ := io.ReadAll(r)
			answered <- string(body)
		}()
		if got := status(t, c, ofSession(id, http.MethodDelete)); got != http.StatusNoContent {
			t.Errorf("DELETE: %d", got)
		}
		if body := <-answered; !strings.Contains(body, `"text":"answered"`) {
			t.Error(body)
		}
		if _, err := io.ReadAll(stream); err != nil {
			t.Error(err)
		}
		if got := status(t, c, ofSession(id, http.MethodPost)); got != http.StatusNotFound {
			t.Errorf("after DELETE: %d", got)
		}
	})
}

// TestRelayedRequestsAreObserved: the report of a request is the same as if it were served here.
func TestRelayedRequestsAreObserved(t *testing.T) {
	t.Parallel()
	tools := map[string]tool{
		"works": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return say("Job ID: " + jobID + "\n\nx"), nil
		},
		"fails": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := say("no")
			r.IsError = true
			return r, nil
		},
	}
	names := []string{"list_jobs", "works", "fails"}
	report := func(t *testing.T, dial func() net.Conn, seen chan metrics.Request) (reports []string) {
		c := dial()
		id := initialize(t, c)
		for _, session := range []string{"", id} {
			for _, name := range []string{"works", "fails", "list_jobs", "secret"} {
				roundTrip(t, c, callOfEra(session, name))
			}
		}
		roundTrip(t, c, message{body: "{}"})
		roundTrip(t, c, message{body: "no JSON"})
		status(t, c, ofSession("none", http.MethodPost))
		status(t, c, ofSession(id, http.MethodDelete))
		synctest.Wait()
		for len(seen) > 0 {
			r := <-seen
			r.Time, r.Duration, r.Bytes, r.Tenant = time.Time{}, 0, 0, ""
			reports = append(reports, fmt.Sprintf("%+v", r))
		}
		return reports
	}
	seen := make(chan metrics.Request, 100) // more than the test makes
	config := Config{Observe: func(r metrics.Request) { seen <- r }, Tools: names}
	var direct, passedOn []string
	inBubble(t, tools, config, func(t *testing.T, _ *Server, dial func() net.Conn) { direct = report(t, dial, seen) })
	passing(t, tools, Config{Tools: names}, config, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
		passedOn = report(t, dial, seen)
	})
	if len(direct) != 14 || len(passedOn) != 14 {
		t.Fatalf("%d and %d reports", len(direct), len(passedOn))
	}
	for i := range direct {
		if direct[i] != passedOn[i] {
			t.Errorf("passed on: %s\nserved here: %s", passedOn[i], direct[i])
		}
	}
}

// TestRelayedCallThatIsClosed: a client that leaves ends its request in the process. Its report names
// the tool.
func TestRelayedCallThatIsClosed(t *testing.T) {
	t.Parallel()
	var fate chan string
	seen := make(chan metrics.Request, 100) // more than the test makes
	config := Config{Observe: func(r metrics.Request) { seen <- r }, Tools: []string{"tool"}}
	inBothErasRelayed(t, stopping(&fate), config, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn, call message) {
		fate = make(chan string, 2)
		c := dial()
		send(t, c, call)
		synctest.Wait()
		c.Close()
		check(t, fate, "cancelled", "dropped")
		if got := next(t, seen, "tools/call"); got.Tool != "tool" || got.Result != metrics.Closed {
			t.Errorf("%+v", got)
		}
	})
}

// TestRevokeRelayed: a token that is revoked ends what the process has of it. Its call is answered,
// and the session of another token stays.
func TestRevokeRelayed(t *testing.T) {
	t.Parallel()
	find := func(token string) (Caller, bool) { return Caller{"tenant", token}, token != "revoked" }
	passing(t, waiting(nil), Config{}, Config{Find: find}, func(t *testing.T, s *Server, b *behind, dial func() net.Conn) {
		with := func(token string, m message) message {
			m.headers += "Authorization: Bearer " + token + "\r\n"
			return m
		}
		begin := func(token string) (id string) {
			answer, _ := roundTrip(t, dial(), with(token, hello))
			return answer.Header.Get("Mcp-Session-Id")
		}
		id, other := begin("a"), begin("b")
		calling, events := dial(), dial()
		send(t, events, with("a", message{method: http.MethodGet, headers: "Mcp-Session-Id: " + id + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"}))
		_, stream := receive(t, events)
		send(t, calling, with("a", callOfEra(id, "tool")))
		synctest.Wait()
		begun := time.Now()
		s.Revoke("a")
		_, r := receive(t, calling)
		if body, err := io.ReadAll(r); err != nil || !strings.Contains(string(body), `"text":"answered"`) {
			t.Errorf("%v, %s", err, body)
		}
		if _, err := io.ReadAll(stream); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > answerTime {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		for id, want := range map[string]int{id: http.StatusNotFound, other: http.StatusOK} {
			if got := status(t, dial(), with("b", ofSession(id, http.MethodPost))); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		}
	})
}

// TestRevokeOfADeafProcess: the requests of a revoked token end although the process does nothing.
func TestRevokeOfADeafProcess(t *testing.T) {
	t.Parallel()
	find := func(token string) (Caller, bool) { return Caller{"tenant", token}, true }
	before(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventStream)
		io.WriteString(w, ": \n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, Config{Find: find}, func(t *testing.T, s *Server, _ *behind, dial func() net.Conn) {
		stream := callOfEra("", "tool")
		stream.method = http.MethodGet
		for want, m := range map[time.Duration]message{0: stream, answerTime: callOfEra("", "tool")} {
			c := dial()
			m.headers += "Authorization: Bearer a\r\n"
			send(t, c, m)
			_, r := receive(t, c)
			begun := time.Now()
			s.Revoke("a")
			if _, err := io.ReadAll(r); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took != want {
				t.Errorf("%s took %v", m.method, took)
			}
		}
	})
}

// TestProcessThatEnds: what a process that ends had in flight is answered with what is lost, or cut if
// that can't be said. The next request starts another process.
func TestProcessThatEnds(t *testing.T) {
	t.Parallel()
	const lost = "All jobs of this tenant are lost."
	const event = "event: message\ndata: "
	inBothErasRelayed(t, waiting(nil), Config{Tools: []string{"tool"}}, func(t *testing.T, _ *Server, b *behind, dial func() net.Conn, call message) {
		newer := strings.Contains(call.headers, newerEra)
		answer := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + lost + `"}],"isError":true`
		if newer {
			answer += `,"resultType":"complete"`
		}
		answer += "}}"
		for _, wait := range []time.Duration{0, aliveEvery + time.Second} {
			if !newer {
				call = callOfEra(initialize(t, dial()), "tool") // a new process does not know the session of one that has ended
			}
			c := dial()
			send(t, c, call)
			time.Sleep(wait)
			synctest.Wait()
			b.die()
			head, r := receive(t, c)
			body, err := io.ReadAll(r)
			want := answer
			if wait > 0 {
				want = ": \n\n" + event + answer + "\n\n"
			}
			if err != nil || head.StatusCode != http.StatusOK || string(body) != want {
				t.Errorf("%v, %s, %s, want %s", err, head.Status, body, want)
			}
			if newer {
				continue
			}
			if got := status(t, dial(), callOfEra("gone", "tool")); got != http.StatusNotFound {
				t.Errorf("a session of the process before: %d", got)
			}
		}
	})
	for _, test := range []struct {
		name, begins string
		stream, cut  bool
		want         string
	}{
		{"nothing", "", true, false, event + `{"jsonrpc":"2.0","id":1,"result":{"content"`},
		{"a comment", ": \n\n", true, false, ": \n\n" + event + `{"jsonrpc":"2.0","id":1,"result":{"content"`},
		{"half an event", ": \n\n" + event + `{"jsonrpc":"2.0","id":1,"re`, true, true, ""},
		{"the answer", event + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n", true, false, event + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n"},
		{"a body", "{", false, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			before(t, func(w http.ResponseWriter, r *http.Request) {
				if test.stream {
					w.Header().Set("Content-Type", eventStream)
				}
				io.WriteString(w, test.begins)
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}, Config{}, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
				c := dial()
				send(t, c, callOfEra("", "tool"))
				_, r := receive(t, c)
				body, err := io.ReadAll(r)
				if (err != nil) != test.cut || !strings.HasPrefix(string(body), test.want) {
					t.Errorf("%v, %s", err, body)
				}
				if test.want != "" && strings.Count(string(body), "data: ") != 1 {
					t.Errorf("not one answer: %s", body)
				}
			})
		})
	}
}

// TestProcessThatDoesNotStart: the error of a start is the answer to each call.
func TestProcessThatDoesNotStart(t *testing.T) {
	t.Parallel()
	passing(t, nil, Config{}, Config{}, func(t *testing.T, _ *Server, b *behind, dial func() net.Conn) {
		b.fails = errors.New("bwrap is missing: install it")
		for range 2 {
			for _, test := range []struct {
				m      fmt.Stringer
				status int
				body   string
			}{
				{callOfEra("", "tool"), http.StatusOK, `"isError":true`},
				{hello, http.StatusOK, `"error":{"code":-32603,`},
				{message{body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`}, http.StatusBadGateway, ""},
				{message{body: "[]"}, http.StatusBadGateway, ""},
				{message{method: http.MethodGet}, http.StatusBadGateway, ""},
				{text("GET /files/x HTTP/1.1\r\nHost: localhost\r\n\r\n"), http.StatusBadGateway, ""},
			} {
				answer, body := roundTrip(t, dial(), test.m)
				if answer.StatusCode != test.status || !strings.Contains(body, test.body) || !strings.Contains(body, "bwrap is missing: install it") {
					t.Errorf("%s: %s %s", test.m, answer.Status, body)
				}
			}
		}
	})
}

// TestWhatAProcessReceives: the process gets the name of the token, and nothing that a client could
// have put in its place. Paths are passed on as they are.
func TestWhatAProcessReceives(t *testing.T) {
	t.Parallel()
	find := func(token string) (Caller, bool) { return Caller{"tenant", "name"}, token == "secret" }
	var got *http.Request
	before(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		io.Copy(io.Discard, r.Body)
	}, Config{Find: find, Origins: []string{"https://app.example"}}, func(t *testing.T, _ *Server, b *behind, dial func() net.Conn) {
		const end = "Authorization: Bearer secret\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
		for _, test := range []struct {
			name, head string
			status     int
			path       string
		}{
			{"plain", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n", 200, "/mcp"},
			{"Connection names a header", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close, Authorization, X-Y\r\nX-Y: 1\r\n", 200, "/mcp"},
			{"hop by hop", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nKeep-Alive: 1\r\nProxy-Authorization: Basic secret\r\nTe: trailers\r\nUpgrade: h2c\r\n", 200, "/mcp"},
			{"a page, with cookies", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\nCookie: secret\r\nSec-Fetch-Site: cross-site\r\nExpect: 100-continue\r\n", 200, "/mcp"},
			{"absolute", "POST http://localhost/mcp HTTP/1.1\r\nHost: elsewhere\r\n", 200, "/mcp"},
			{"two tokens", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n", 401, ""},
			{"dots", "PUT /files/../mcp HTTP/1.1\r\nHost: localhost\r\n", 200, "/files/../mcp"},
			{"coded", "PUT /files/a%2fb%2e%2e//c?d=%20 HTTP/1.1\r\nHost: localhost\r\n", 200, "/files/a%2fb%2e%2e//c?d=%20"},
			{"the counts", "GET /relay/counts HTTP/1.1\r\nHost: localhost\r\n", 404, ""},
			{"a revocation", "POST /relay/revoke HTTP/1.1\r\nHost: localhost\r\n", 404, ""},
			{"dots to the counts", "GET /files/../relay/counts HTTP/1.1\r\nHost: localhost\r\n", 200, "/files/../relay/counts"},
			{"dots beside", "GET /mcp/../relay/counts HTTP/1.1\r\nHost: localhost\r\n", 307, ""},
		} {
			got = nil
			c := dial()
			send(t, c, text(test.head+end))
			r := bufio.NewReader(c)
			answer, err := http.ReadResponse(r, nil)
			for err == nil && answer.StatusCode == http.StatusContinue {
				answer, err = http.ReadResponse(r, nil)
			}
			if err != nil {
				t.Fatal(test.name, err)
			}
			io.Copy(io.Discard, answer.Body)
			c.Close()
			synctest.Wait()
			if answer.StatusCode != test.status || (got != nil) != (test.path != "") {
				t.Errorf("%s: %s, passed on: %v", test.name, answer.Status, got != nil)
			}
			if got == nil {
				continue
			}
			if got.RequestURI != test.path || got.Host != "tenant" || len(got.Header["Authorization"]) != 1 || got.Header.Get("Authorization") != "Bearer name" {
				t.Errorf("%s: %s of %s, %v", test.name, got.RequestURI, got.Host, got.Header)
			}
			for _, name := range []string{"Origin", "Cookie", "Sec-Fetch-Site", "X-Y", "Keep-Alive", "Proxy-Authorization", "Upgrade", "Expect"} {
				if got.Header.Get(name) != "" {
					t.Errorf("%s: %s is passed on", test.name, name)
				}
			}
		}
	})
}

// TestWhatAProcessMayAnswer: a process can't speak for the server, and can't take over a connection.
func TestWhatAProcessMayAnswer(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"another protocol": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"a WebSocket":      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"an odd status":    "HTTP/1.1 042 Odd\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":          "\x00\x00\x00\x00\r\n\r\n",
		"early hints":      "HTTP/1.1 103 Early Hints\r\nSet-Cookie: a=b\r\n\r\nHTTP/1.1 042 Odd\r\nContent-Length: 0\r\n\r\n",
		"many headers":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 200) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			before(t, func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(c, raw)
				c.Close()
			}, Config{}, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
				c := dial()
				answer, body := roundTrip(t, c, callOfEra("", "tool"))
				if answer.StatusCode != http.StatusOK || !strings.Contains(body, `"isError":true`) {
					t.Errorf("%s: %s", answer.Status, body)
				}
				roundTrip(t, c, text("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")) // the connection is the server's
			})
		})
	}
	before(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Trailer", "X-A")
		for _, name := range []string{"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Access-Control-Allow-Origin", "Clear-Site-Data", "Www-Authenticate", "Location"} {
			h.Set(name, "x")
		}
		h.Set("Content-Type", "text/html")
		io.WriteString(w, "<script>")
		h.Set("X-A", "1")
		relay.Note{Method: "forged\nline", Tool: "secret", Job: "x", Result: "ok"}.Set(h)
	}, Config{}, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
		answer, _ := roundTrip(t, dial(), text("GET /files/x HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		if len(answer.Trailer) > 0 {
			t.Errorf("trailers %v", answer.Trailer)
		}
		for name := range answer.Header {
			switch name {
			case "Content-Type", "Content-Security-Policy", "X-Content-Type-Options":
			case "Content-Length", "Date": // they are net/http's
			default:
				t.Errorf("%s is passed on", name)
			}
		}
	})
}

// TestNoteOfAProcess: what a process says of a request names only what there is.
func TestNoteOfAProcess(t *testing.T) {
	t.Parallel()
	var note relay.Note
	seen := make(chan metrics.Request, 10) // more than the test makes
	before(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "x")
		http.NewResponseController(w).Flush()
		note.Set(w.Header())
	}, Config{Observe: func(r metrics.Request) { seen <- r }, Tools: []string{"tool"}}, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
		for _, test := range []struct {
			note relay.Note
			want metrics.Request
		}{
			{relay.Note{Method: "tools/call", Tool: "tool", Job: jobID, Result: "error"}, metrics.Request{Method: "tools/call", Tool: "tool", Job: jobID, Result: metrics.Error}},
			{relay.Note{Method: "tools/call", Tool: "secret", Result: "ok"}, metrics.Request{Method: "tools/call", Result: metrics.OK}},
			{relay.Note{Method: "a\nb", Tool: "tool", Result: "ok"}, metrics.Request{Method: "POST", Result: metrics.OK}},
			{relay.Note{Method: "tools/call", Job: strings.Repeat("x", 65), Result: "ok"}, metrics.Request{Method: "POST", Result: metrics.OK}},
			{relay.Note{Method: "tools/call", Tool: "tool", Result: "great"}, metrics.Request{Method: "POST", Result: metrics.OK}},
		} {
			note = test.note
			roundTrip(t, dial(), message{body: "{}"})
			synctest.Wait()
			got := <-seen
			if got.Method != test.want.Method || got.Tool != test.want.Tool || got.Job != test.want.Job || got.Result != test.want.Result {
				t.Errorf("%+v: %+v", test.note, got)
			}
		}
	})
}

// TestRelayedBodies: the size and the time of bodies are bounded before anything is passed on, and the
// time of each part of a file.
func TestRelayedBodies(t *testing.T) {
	t.Parallel()
	before(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }, Config{}, func(t *testing.T, _ *Server, b *behind, dial func() net.Conn) {
		for _, test := range []struct {
			name, request string
			status        int
			after         time.Duration
		}{
			{"a message too large", fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", bodySize+1), http.StatusRequestEntityTooLarge, 0},
			{"another type", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", http.StatusUnsupportedMediaType, 0},
			{"a message that does not come", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{", http.StatusRequestTimeout, bodyTime},
		} {
			c, begun := dial(), time.Now()
			send(t, c, text(test.request))
			answer, _ := receive(t, c)
			if took := time.Since(begun); answer.StatusCode != test.status || took != test.after {
				t.Errorf("%s: %s after %v", test.name, answer.Status, took)
			}
		}
		if got := b.times(); got != 0 {
			t.Errorf("%d connections to the process", got)
		}
		c, begun := dial(), time.Now()
		send(t, c, text("PUT /files/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"))
		for range 10 {
			time.Sleep(20 * time.Second)
			send(t, c, text("x"))
		}
		answer, _ := receive(t, c)
		if took := time.Since(begun); answer.StatusCode != http.StatusRequestTimeout || took != 230*time.Second || !answer.Close {
			t.Errorf("a file of which nothing comes any more: %s after %v", answer.Status, took)
		}
	})
}

// TestRelayedBodyWithALongAnswer: the deadline for a part of a body is not one for the answer.
func TestRelayedBodyWithALongAnswer(t *testing.T) {
	t.Parallel()
	before(t, func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			time.Sleep(10 * bodyTime)
			w.Write(body)
		}
	}, Config{}, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
		c := dial()
		for _, body := range []string{"Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"} {
			answer, got := roundTrip(t, c, text("PUT /files/x HTTP/1.1\r\nHost: localhost\r\n"+body))
			if answer.StatusCode != http.StatusOK || got != "body" {
				t.Errorf("%s: %s", answer.Status, got)
			}
		}
	})
}

// TestSlowReaderOfARelay: a client that does not read makes its process wait, and both are cut off.
func TestSlowReaderOfARelay(t *testing.T) {
	t.Parallel()
	const part = 64 << 10
	var gone chan time.Time
	var sent atomic.Int64
	before(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			n, err := w.Write(make([]byte, part))
			if sent.Add(int64(n)); err != nil {
				gone <- time.Now()
				return
			}
		}
	}, Config{}, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
		gone = make(chan time.Time, 1)
		c, begun := dial(), time.Now()
		send(t, c, text("GET /files/x HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		synctest.Wait()
		if n := sent.Load(); n > part {
			t.Errorf("the relay holds %d bytes", n)
		}
		if took := (<-gone).Sub(begun); took != writeTime {
			t.Errorf("cut off after %v", took)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownOfARelay: streams end as if they were complete.
func TestShutdownOfARelay(t *testing.T) {
	t.Parallel()
	passing(t, nil, Config{}, Config{}, func(t *testing.T, s *Server, _ *behind, dial func() net.Conn) {
		id := initialize(t, dial())
		c := dial()
		send(t, c, message{method: http.MethodGet, headers: "Mcp-Session-Id: " + id + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"})
		_, r := receive(t, c)
		synctest.Wait()
		begun := time.Now()
		ended := make(chan struct{})
		go func() { // owned by the test, which waits for it
			defer close(ended)
			s.Shutdown(context.Background())
		}()
		if _, err := io.ReadAll(r); err != nil {
			t.Error(err)
		}
		<-ended
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestStreamThatBegins: a client reads the headers of a stream before its first event.
func TestStreamThatBegins(t *testing.T) {
	t.Parallel()
	before(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventStream)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, Config{}, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) {
		c, begun := dial(), time.Now()
		send(t, c, message{method: http.MethodGet})
		receive(t, c)
		if took := time.Since(begun); took != 0 {
			t.Errorf("after %v", took)
		}
		c.Close()
	})
}

// TestWebSocketEnds: a connection that was switched to WebSocket ends with the server and when its
// token is revoked.
func TestWebSocketEnds(t *testing.T) {
	t.Parallel()
	find := func(token string) (Caller, bool) { return Caller{"tenant", token}, true }
	for name, end := range map[string]func(*Server){
		"revoked":  func(s *Server) { s.Revoke("a") },
		"shutdown": func(s *Server) { s.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			before(t, func(w http.ResponseWriter, r *http.Request) {
				c, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				io.Copy(c, rw)
			}, Config{Find: find}, func(t *testing.T, s *Server, _ *behind, dial func() net.Conn) {
				c := dial()
				send(t, c, text("GET /files/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
				answer, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
					t.Fatal(answer, err)
				}
				synctest.Wait()
				end(s)
				if _, err := c.Read(make([]byte, 1)); err != io.EOF {
					t.Error(err)
				}
			})
		})
	}
}

// TestWebSocketThatIsNotRead: a client that reads nothing for long loses its connection, so that it does
// not hold the process's.
func TestWebSocketThatIsNotRead(t *testing.T) {
	t.Parallel()
	var ended chan error
	before(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for err == nil {
			_, err = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		}
		ended <- err
	}, Config{}, func(t *testing.T, s *Server, _ *behind, dial func() net.Conn) {
		ended = make(chan error, 1) // the test can have failed
		c, begun := dial(), time.Now()
		send(t, c, text("GET /files/x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(answer, err)
		}
		<-ended
		if took := time.Since(begun); took < writeTime || took > writeTime+time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// TestRelayAsks: the counts and the readiness of a process are asked at its own paths. What it counts
// is bounded, and a process that does not run is not started to be asked.
func TestRelayAsks(t *testing.T) {
	t.Parallel()
	notReady := errors.New("no process can be started")
	passing(t, nil, Config{Ready: func() error { return notReady }}, Config{}, func(t *testing.T, s *Server, b *behind, dial func() net.Conn) {
		tenants := []*relay.Tenant{s.config.Relay(Caller{})}
		if c := relay.Sum(tenants); c.MCPSessions != 0 || relay.Ready(tenants) != nil || b.times() != 0 {
			t.Errorf("%+v after %d connections", c, b.times())
		}
		initialize(t, dial())
		c := relay.Sum(tenants)
		if c.MCPSessions != 1 || c.Jobs["running"] != 1 || len(c.Jobs) != 1 || c.Output != 1<<50 {
			t.Errorf("%+v", c)
		}
		if err := relay.Ready(tenants); err == nil || !strings.Contains(err.Error(), notReady.Error()) {
			t.Error(err)
		}
		b.die()
		c = relay.Sum(tenants)
		if c.MCPSessions != 0 || len(c.Jobs) != 0 || c.Output != 1<<50 {
			t.Errorf("after its end: %+v", c)
		}
	})
}

// A client that sends no more after its request, and can still read, gets no empty answer that says that all
// went well.
func TestRefusalOfAClientThatHasLeft(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	defer func() {
		if bug := recover(); bug != http.ErrAbortHandler {
			t.Errorf("the connection was not broken off: %v, status %d", bug, w.Code)
		}
	}()
	p := &relayed{x: &exchange{client: left}}
	p.refuse(w, errors.New("no room"))
}
