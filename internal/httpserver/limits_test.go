package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSlowHeaders: a client that sends its headers a byte a second is cut off.
func TestSlowHeaders(t *testing.T) {
	inBubble(t, nil, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c, begun := dial(), time.Now()
		sent := make(chan struct{})
		go func() { // owned by the test, which waits for it; ends with the connection
			defer close(sent)
			for _, b := range []byte(message{headers: strings.Repeat("X: y\r\n", 100)}.String()) {
				if _, err := c.Write([]byte{b}); err != nil {
					break
				}
				time.Sleep(time.Second)
			}
		}()
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != headerTime {
			t.Errorf("the client was cut off after %v", took)
		}
		<-sent
	})
}

// TestSlowBody: a client that sends half a body is answered and cut off.
func TestSlowBody(t *testing.T) {
	inBubble(t, nil, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c, begun := dial(), time.Now()
		whole := callOfEra("", "tool").String()
		if _, err := io.WriteString(c, whole[:len(whole)-10]); err != nil {
			t.Fatal(err)
		}
		answer, r := receive(t, c)
		body, err := io.ReadAll(r)
		if err != nil || answer.StatusCode != http.StatusRequestTimeout || !answer.Close {
			t.Errorf("%v, %s: %s", err, answer.Status, body)
		}
		if took := time.Since(begun).Round(time.Second); took != bodyTime {
			t.Errorf("the client was cut off after %v", took)
		}
	})
}

// TestIdleConnection: a connection without a request ends.
func TestIdleConnection(t *testing.T) {
	inBubble(t, nil, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		exchange(t, c, message{body: "{}"})
		begun := time.Now()
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != idleTime {
			t.Errorf("the connection ended after %v", took)
		}
	})
}

// A text is a request that is no message.
type text string

func (s text) String() string { return string(s) }

// TestTooLarge: headers and bodies have limits, and a type.
func TestTooLarge(t *testing.T) {
	inBubble(t, nil, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, strings.Repeat(" ", 1<<20))
		for name, test := range map[string]struct {
			what   fmt.Stringer
			status int
		}{
			"headers": {message{headers: strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 80)}, http.StatusRequestHeaderFieldsTooLarge},
			"body":    {message{body: strings.Repeat(" ", bodySize+1)}, http.StatusRequestEntityTooLarge},
			"chunks": {text("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
				strings.Repeat(chunk, bodySize>>20+1)), http.StatusRequestEntityTooLarge},
			"largest": {message{body: strings.Repeat(" ", bodySize)}, http.StatusBadRequest}, // not for its size
			"type":    {text(strings.Replace(message{body: "{}"}.String(), "application/json", "text/plain", 1)), http.StatusUnsupportedMediaType},
		} {
			c := dial()
			go io.WriteString(c, test.what.String()) // ends when all is read, or the connection closed
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(name, err)
			}
			if answer.StatusCode != test.status {
				t.Errorf("%s: %s", name, answer.Status)
			}
			c.Close()
		}
	})
}

// TestTooManyRequests: a caller has some requests in flight at most. Others have their own.
func TestTooManyRequests(t *testing.T) {
	inBubble(t, nil, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		who := Caller{Tenant: defaultTenant}
		for range maxInFlight {
			if _, ok := s.callers.enter(who); !ok {
				t.Fatal("refused")
			}
		}
		if head, body := exchange(t, dial(), message{body: "{}"}); head.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %s", head.Status, body)
		}
		if _, ok := s.callers.enter(Caller{Tenant: "other"}); !ok {
			t.Error("another caller is refused")
		}
		s.callers.leave(s.callers.all[who])
		if head, body := exchange(t, dial(), message{body: "{}"}); head.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", head.Status, body)
		}
	})
}

// TestTooManyConnections: one more than are allowed waits until another is closed.
func TestTooManyConnections(t *testing.T) {
	inBubble(t, nil, Config{Conns: 2}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		one, two := dial(), dial()
		exchange(t, one, message{body: "{}"})
		exchange(t, two, message{body: "{}"})
		begun := time.Now()
		exchange(t, dial(), message{body: "{}"}) // when the first has been idle for long enough
		if took := time.Since(begun); took != idleTime {
			t.Errorf("accepted after %v", took)
		}
	})
}

// TestClosedRequest: a client that closes its request ends the wait of the call.
func TestClosedRequest(t *testing.T) {
	var ended, fate chan bool
	tools := map[string]tool{"tool": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		callOf(req).OnAnswer(func(queued bool) { fate <- queued })
		<-ctx.Done()
		ended <- true
		return say("too late"), nil
	}}
	inBothEras(t, tools, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn, call message) {
		ended, fate = make(chan bool, 1), make(chan bool, 1)
		c := dial()
		send(t, c, call)
		synctest.Wait()
		c.Close()
		<-ended
		if <-fate {
			t.Error("the answer counts as read")
		}
	})
}

// TestNotificationOutlivesItsRequest: it is handled after its request was answered.
func TestNotificationOutlivesItsRequest(t *testing.T) {
	closed, end := context.WithCancel(t.Context())
	end()
	extra := &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{Extra: map[string]any{callKey: &call{closed: closed}}}}
	for method, want := range map[string]bool{"notifications/initialized": true, "tools/list": false} {
		untilClosed(func(ctx context.Context, _ string, _ mcp.Request) (mcp.Result, error) {
			if !want {
				<-ctx.Done()
			} else if ctx.Err() != nil {
				t.Errorf("%s: %v", method, ctx.Err())
			}
			return nil, nil
		})(t.Context(), method, &mcp.ListToolsRequest{Extra: extra})
	}
}

// TestAnsweredRequest: an answer that was written counts as read.
func TestAnsweredRequest(t *testing.T) {
	var fate chan bool
	tools := map[string]tool{"tool": func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		callOf(req).OnAnswer(func(queued bool) { fate <- queued })
		return say("answered"), nil
	}}
	inBothEras(t, tools, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn, call message) {
		fate = make(chan bool, 1)
		exchange(t, dial(), call)
		if !<-fate {
			t.Error("the answer counts as lost")
		}
	})
}

// TestShutdown: calls in flight are answered, streams end, and no goroutine is left.
func TestShutdown(t *testing.T) {
	inBothEras(t, waiting(nil), Config{}, func(t *testing.T, s *Server, dial func() net.Conn, call message) {
		stream := dial()
		send(t, stream, message{method: http.MethodGet, headers: "Mcp-Session-Id: " + initialize(t, dial()) + "\r\n"})
		_, events := receive(t, stream)
		c := dial()
		send(t, c, call)
		synctest.Wait()
		down, begun := make(chan struct{}), time.Now()
		go func() { // owned by the test, which waits for it
			defer close(down)
			s.Shutdown(context.Background())
		}()
		_, r := receive(t, c)
		if body, err := io.ReadAll(r); err != nil || !strings.Contains(string(body), "answered") {
			t.Errorf("%v, %s", err, body)
		}
		if _, err := io.ReadAll(events); err != nil {
			t.Error(err)
		}
		<-down
		if took := time.Since(begun); took >= aliveEvery {
			t.Errorf("it took %v", took)
		}
	})
}

// TestManyRequests: no goroutine is left of many requests and sessions.
func TestManyRequests(t *testing.T) {
	const requests = 200
	inBubble(t, map[string]tool{"tool": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return say("x"), nil }}, Config{},
		func(t *testing.T, s *Server, dial func() net.Conn) {
			c := dial()
			exchange(t, c, callOfEra("", "tool"))
			synctest.Wait()
			before := runtime.NumGoroutine()
			call := callOfEra("", "tool")
			for range requests {
				exchange(t, c, call)
			}
			for range requests / 10 {
				id := initialize(t, c)
				exchange(t, c, callOfEra(id, "tool"))
				exchange(t, c, message{method: http.MethodDelete, headers: "Mcp-Session-Id: " + id + "\r\n"})
			}
			synctest.Wait()
			if after := runtime.NumGoroutine(); after > before {
				t.Errorf("%d goroutines before, %d after", before, after)
			}
			if n := len(s.sessions.all); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
}
