package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func ofSession(id, method string) message {
	return message{method: method, headers: "Mcp-Session-Id: " + id + "\r\n", body: map[string]string{http.MethodPost: `{"jsonrpc":"2.0","id":7,"method":"ping"}`}[method]}
}

// status returns that of an answer.
func status(t *testing.T, c net.Conn, m message) int {
	t.Helper()
	answer, _ := roundTrip(t, c, m)
	return answer.StatusCode
}

// TestTooManySessions: the session that has been without a call longest gives way to a new one.
func TestTooManySessions(t *testing.T) {
	t.Parallel()
	var answer chan struct{}
	inBubble(t, waitingFor(&answer), Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		answer = make(chan struct{})
		s.sessions.most = 10
		c := dial()
		busy := initialize(t, c)
		calling := dial()
		send(t, calling, callOfEra(busy, "tool"))
		used, idle := initialize(t, c), initialize(t, c)
		time.Sleep(time.Second)
		status(t, c, ofSession(used, http.MethodPost))
		for range s.sessions.most - 3 {
			initialize(t, c)
		}
		initialize(t, c) // one too many
		synctest.Wait()
		if got := len(s.sessions.all); got != s.sessions.most || s.sessions.count[defaultTenant] != got {
			t.Errorf("%d sessions, %v counted", got, s.sessions.count)
		}
		for id, want := range map[string]int{busy: http.StatusOK, used: http.StatusOK, idle: http.StatusNotFound} {
			if got := status(t, c, ofSession(id, http.MethodPost)); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		}
		close(answer)
		_, r := receive(t, calling)
		if event := line(t, r); event != "event: message" {
			t.Errorf("the call in flight got %q", event)
		}
	})
}

// TestNoSessionGivesWay: if each session has a call in flight, a new one is refused.
func TestNoSessionGivesWay(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		s.sessions.most = 3
		c := dial()
		for range s.sessions.most {
			s.sessions.use(s.sessions.find(initialize(t, c)))
		}
		_, body := roundTrip(t, c, hello)
		if !strings.Contains(body, errTooManySessions.Error()) {
			t.Error(body)
		}
		synctest.Wait()
		if got := len(s.sessions.all); got != s.sessions.most {
			t.Errorf("%d sessions", got)
		}
	})
}

// TestEndOfSession: a session ends by DELETE, and when it has had no request for long. The waits of
// its calls end with it, and they are answered.
func TestEndOfSession(t *testing.T) {
	t.Parallel()
	inBubble(t, waiting(nil), Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		c, calling := dial(), dial()
		id := initialize(t, c)
		send(t, calling, callOfEra(id, "tool"))
		synctest.Wait()
		answered := make(chan string)
		go func() { // owned by the test, which waits for it
			body, _ := io.ReadAll(calling)
			answered <- string(body)
		}()
		if got := status(t, c, ofSession(id, http.MethodDelete)); got != http.StatusNoContent {
			t.Errorf("DELETE: %d", got)
		}
		begun := time.Now()
		if body := <-answered; !strings.Contains(body, `"text":"answered"`) || time.Since(begun) > idleTime {
			t.Errorf("%s, after %v", body, time.Since(begun))
		}
		c = dial() // the other one may have been idle for too long
		if got := status(t, c, ofSession(id, http.MethodPost)); got != http.StatusNotFound {
			t.Errorf("after DELETE: %d", got)
		}
		id = initialize(t, c)
		time.Sleep(sessionTime - time.Second)
		c = dial()
		if got := status(t, c, ofSession(id, http.MethodPost)); got != http.StatusOK {
			t.Errorf("before its time: %d", got)
		}
		time.Sleep(sessionTime + time.Second)
		if got := status(t, dial(), ofSession(id, http.MethodPost)); got != http.StatusNotFound {
			t.Errorf("after its time: %d", got)
		}
		synctest.Wait()
		if n := len(s.sessions.all); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// TestEndOfSessionDoesNotWaitForever: a call that continues, although its wait has ended, does not
// keep its session from ending.
func TestEndOfSessionDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	var goOn chan struct{}
	stubborn := map[string]tool{"tool": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-goOn
		return say("answered"), nil
	}}
	inBubble(t, stubborn, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		goOn = make(chan struct{})
		id := initialize(t, dial())
		send(t, dial(), callOfEra(id, "tool"))
		synctest.Wait()
		begun := time.Now()
		s.sessions.answer(s.sessions.find(id))
		if took := time.Since(begun); took != answerTime {
			t.Errorf("it took %v", took)
		}
		close(goOn)
	})
}

// TestSessionOfAnotherTenant: a session can be used with a token of its own tenant only.
func TestSessionOfAnotherTenant(t *testing.T) {
	t.Parallel()
	find := func(token string) (Caller, bool) { return Caller{token[:1], token}, true }
	inBubble(t, waiting(nil), Config{Find: find}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c, calling := dial(), dial()
		with := func(token string, m message) message {
			m.headers += "Authorization: Bearer " + token + "\r\n"
			return m
		}
		answer, _ := roundTrip(t, c, with("a1", hello))
		id := answer.Header.Get("Mcp-Session-Id")
		for token, want := range map[string]int{"a1": http.StatusOK, "a2": http.StatusOK, "b1": http.StatusForbidden} {
			if got := status(t, c, with(token, ofSession(id, http.MethodPost))); got != want {
				t.Errorf("%s: %d, want %d", token, got, want)
			}
		}
		if got := status(t, dial(), ofSession(id, http.MethodPost)); got != http.StatusUnauthorized {
			t.Errorf("no token: %d", got)
		}
		send(t, calling, with("a1", callOfEra(id, "tool")))
		synctest.Wait()
		if got := status(t, c, with("b1", ofSession(id, http.MethodDelete))); got != http.StatusForbidden {
			t.Errorf("DELETE: %d", got)
		}
		calling.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := calling.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the call in flight does not wait any more: %d, %v", n, err)
		}
	})
}

// TestTokenIsLookedUpOnce: a request looks its token up once. If it is revoked after that, and before
// the request is one of its caller's, the request is refused.
func TestTokenIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	var server *Server
	lookups, known, revoke := 0, true, false
	find := func(string) (Caller, bool) {
		lookups++
		found := known
		if revoke {
			known = false
			server.Revoke("laptop")
		}
		return Caller{Tenant: "alice", Token: "laptop"}, found
	}
	inBubble(t, answering(new(chan bool), "answered"), Config{Find: find}, func(t *testing.T, s *Server, dial func() net.Conn) {
		server = s
		call := callOfEra("", "nothing")
		call.headers += "Authorization: Bearer x\r\n"
		if head, _ := roundTrip(t, dial(), call); head.StatusCode == http.StatusUnauthorized || lookups != 1 {
			t.Errorf("%s after %d lookups", head.Status, lookups)
		}
		revoke, lookups = true, 0
		if head, _ := roundTrip(t, dial(), call); head.StatusCode != http.StatusUnauthorized || lookups != 2 {
			t.Errorf("after the revocation: %s after %d lookups", head.Status, lookups)
		}
	})
}
