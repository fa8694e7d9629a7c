package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/test/racetest"
)

// answering is a tool that answers at once. The channel gets whether the answer counts as read.
func answering(read *chan bool, text string) map[string]tool {
	return map[string]tool{"tool": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		delivery.TicketOf(req.GetExtra()).OnAnswer(func(queued bool) { *read <- queued })
		return say(text), nil
	}}
}

// stopping is a tool that answers when its call must end. The channel gets what becomes of the
// call.
func stopping(fate *chan string) map[string]tool {
	return map[string]tool{"tool": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call := delivery.TicketOf(req.GetExtra())
		call.OnCancel(func() { *fate <- "cancelled" })
		<-ctx.Done()
		call.OnAnswer(func(queued bool) { *fate <- map[bool]string{true: "read", false: "dropped"}[queued] })
		return say("too late"), nil
	}}
}

// check checks what becomes of a call.
func check(t *testing.T, fate chan string, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := <-fate; got != want {
			t.Errorf("the call is %s, not %s", got, want)
		}
	}
}

// TestAnsweredRequest: an answer that was written counts as read.
func TestAnsweredRequest(t *testing.T) {
	t.Parallel()
	var read chan bool
	inBothEras(t, answering(&read, "answered"), Config{}, func(t *testing.T, _ *Server, dial func() net.Conn, call message) {
		read = make(chan bool, 1)
		roundTrip(t, dial(), call)
		if !<-read {
			t.Error("the answer counts as lost")
		}
	})
}

// TestClientThatClosesWithTheAnswer: an answer counts as read, too, if its client closes the
// connection as soon as it has the last byte.
func TestClientThatClosesWithTheAnswer(t *testing.T) {
	t.Parallel()
	few, many := 20, 200
	if testing.Short() || racetest.Enabled { // .ci/long makes them all
		few, many = 5, 20 // each makes a connection
	}
	for name, test := range map[string]struct{ size, times int }{"small": {10, many}, "of several writes": {300_000, few}} {
		read := make(chan bool, 1)
		url := serving(t, answering(&read, strings.Repeat("x", test.size)), Config{})
		address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), mcpPath)
		dial := func() net.Conn {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		session := dial()
		defer session.Close()
		for _, call := range []message{callOfEra("", "tool"), callOfEra(initialize(t, session), "tool")} {
			for range test.times {
				c := dial()
				send(t, c, call)
				_, r := receive(t, c)
				for line(t, r) != "" {
				}
				c.Close()
				if !<-read {
					t.Fatalf("%s: the answer counts as lost", name)
				}
			}
		}
	}
}

// TestClosedRequest: a client that closes its request cancels the call, which ends its wait.
func TestClosedRequest(t *testing.T) {
	t.Parallel()
	var fate chan string
	inBothEras(t, stopping(&fate), Config{}, func(t *testing.T, _ *Server, dial func() net.Conn, call message) {
		fate = make(chan string, 2)
		c := dial()
		send(t, c, call)
		synctest.Wait()
		c.Close()
		check(t, fate, "cancelled", "dropped")
	})
}

// TestClosedAfterTheAnswer: a client that closes its request does not cancel the call any more
// after the answer is written.
func TestClosedAfterTheAnswer(t *testing.T) {
	t.Parallel()
	var fate chan string
	inBothEras(t, stopping(&fate), Config{}, func(t *testing.T, s *Server, dial func() net.Conn, call message) {
		fate = make(chan string, 2)
		c := dial()
		send(t, c, call)
		synctest.Wait()
		s.leave() // has calls answered
		_, r := receive(t, c)
		if event := line(t, r); event != "event: message" {
			t.Errorf("got %q", event)
		}
		go io.Copy(io.Discard, r) // ends with the connection
		check(t, fate, "read")
		c.Close()
		synctest.Wait()
		if len(fate) > 0 {
			t.Errorf("the call is %s", <-fate)
		}
	})
}

// TestCancelledCall: a call of the older era that a notification cancels is not answered, and
// reported as cancelled. Its stream ends, and the connection can be used for other calls.
func TestCancelledCall(t *testing.T) {
	t.Parallel()
	var fate chan string
	seen := make(chan metrics.Request, 100) // more than the test makes
	config := Config{Observe: func(r metrics.Request) { seen <- r }, Tools: []string{"tool"}}
	inBubble(t, stopping(&fate), config, func(t *testing.T, _ *Server, dial func() net.Conn) {
		fate = make(chan string, 2)
		other, c := dial(), dial()
		id := initialize(t, other)
		for range 2 {
			synctest.Wait() // the SDK has forgotten the id of the call before
			send(t, c, callOfEra(id, "tool"))
			synctest.Wait()
			roundTrip(t, other, message{headers: "Mcp-Session-Id: " + id + "\r\n", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`})
			check(t, fate, "cancelled", "dropped")
			head, r := receive(t, c)
			if body, err := io.ReadAll(r); err != nil || len(body) > 0 || head.StatusCode != http.StatusOK || head.Header.Get("Content-Type") != eventStream {
				t.Errorf("%v, %s %v: %q", err, head.Status, head.Header, body)
			}
			if got := next(t, seen, "tools/call"); got.Result != metrics.Cancelled || got.Tool != "tool" || got.Status != http.StatusOK {
				t.Errorf("%+v", got)
			}
		}
	})
}

// TestCancelledAfterAComment: a call that is cancelled has nothing more written, also no comments.
func TestCancelledAfterAComment(t *testing.T) {
	t.Parallel()
	var fate chan string
	inBubble(t, stopping(&fate), Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		fate = make(chan string, 2)
		c, id := dial(), initialize(t, dial())
		send(t, c, callOfEra(id, "tool"))
		_, r := receive(t, c)
		roundTrip(t, dial(), message{headers: "Mcp-Session-Id: " + id + "\r\n", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`})
		if body, err := io.ReadAll(r); err != nil || string(body) != ": \n\n" {
			t.Errorf("%v, %q", err, body)
		}
		check(t, fate, "cancelled", "dropped")
	})
}

// TestCancelledCallOfABatch: the calls of a batch are answered together, also if one is cancelled.
func TestCancelledCallOfABatch(t *testing.T) {
	t.Parallel()
	var fate chan string
	tools := stopping(&fate)
	tools["quick"] = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return say("quick"), nil }
	inBubble(t, tools, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		fate = make(chan string, 2)
		c, id := dial(), initialize(t, dial())
		headers := "Mcp-Session-Id: " + id + "\r\nMcp-Protocol-Version: 2025-03-26\r\n"
		send(t, c, message{headers: headers, body: `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","arguments":{}}},` +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"quick","arguments":{}}}]`})
		synctest.Wait()
		roundTrip(t, dial(), message{headers: headers, body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`})
		_, r := receive(t, c)
		if body, err := io.ReadAll(r); err != nil || !strings.Contains(string(body), "quick") || !strings.Contains(string(body), "too late") {
			t.Errorf("%v, %s", err, body)
		}
		check(t, fate, "read")
	})
}

// TestNotificationOutlivesItsRequest: it is handled after its request was answered.
func TestNotificationOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	waits, end := context.WithCancel(t.Context())
	end()
	s := New(Config{})
	x := &exchange{client: t.Context(), report: s.config.Observe, waits: waits}
	extra := &mcp.RequestExtra{TokenInfo: delivery.Attach(auth.TokenInfo{}, x)}
	for method, want := range map[string]bool{"notifications/initialized": true, "tools/list": false} {
		s.handling(func(ctx context.Context, _ string, _ mcp.Request) (mcp.Result, error) {
			if !want {
				<-ctx.Done()
			} else if ctx.Err() != nil {
				t.Errorf("%s: %v", method, ctx.Err())
			}
			return nil, nil
		})(t.Context(), method, &mcp.ListToolsRequest{Extra: extra})
	}
}
