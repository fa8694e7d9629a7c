package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/semaphore"

	"asyncrepl/internal/test/racetest"
)

// TestSlowHeaders: a client that sends its headers a byte a second is cut off.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	inBubble(t, nil, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		roundTrip(t, c, message{body: "{}"})
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
	t.Parallel()
	racetest.Skip(t)
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
	t.Parallel()
	inBubble(t, nil, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		who := Caller{Tenant: defaultTenant}
		for range maxInFlight {
			if _, err := s.callers.enter(who, 0); err != nil {
				t.Fatal("refused")
			}
		}
		if head, body := roundTrip(t, dial(), message{body: "{}"}); head.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %s", head.Status, body)
		}
		if _, err := s.callers.enter(Caller{Tenant: "other"}, 0); err != nil {
			t.Error("another caller is refused")
		}
		s.callers.leave(s.callers.all[who])
		if head, body := roundTrip(t, dial(), message{body: "{}"}); head.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", head.Status, body)
		}
	})
}

// TestBodiesTakeRoom: the bodies of the requests in flight, of one caller and of all, are bounded.
// The room of a body is free again when its request is over.
func TestBodiesTakeRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, Config{}, func(t *testing.T, s *Server, dial func() net.Conn) {
		c := dial()
		empty := message{body: "{}"}
		roundTrip(t, c, empty)
		own := s.callers.all[Caller{Tenant: defaultTenant}].bodies
		for _, test := range []struct {
			room   *semaphore.Weighted
			size   int64
			status int
		}{{own, callerBodies, http.StatusTooManyRequests}, {s.bodies, allBodies, http.StatusServiceUnavailable}} {
			if !test.room.TryAcquire(test.size - 1) {
				t.Fatal("a request that was answered has room")
			}
			for range 2 { // a refused body takes none, either
				head, body := roundTrip(t, dial(), empty)
				if head.StatusCode != test.status || head.Header.Get("Retry-After") == "" || !strings.Contains(body, "MiB together") {
					t.Errorf("%s: %s", head.Status, body)
				}
			}
			test.room.Release(1)
			if got := status(t, dial(), empty); got != http.StatusBadRequest { // not for its size
				t.Errorf("%d, although there is room", got)
			}
		}
	})
}

// TestTooManyConnections: one more than are allowed waits until another is closed.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, Config{Conns: 2}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		one, two := dial(), dial()
		roundTrip(t, one, message{body: "{}"})
		roundTrip(t, two, message{body: "{}"})
		begun := time.Now()
		roundTrip(t, dial(), message{body: "{}"}) // when the first has been idle for long enough
		if took := time.Since(begun); took != idleTime {
			t.Errorf("accepted after %v", took)
		}
	})
}

// TestStrangersGiveWay: connections that have not shown a token, and those of other users, can't keep
// callers out. The oldest one is closed for the next, and those of callers stay.
func TestStrangersGiveWay(t *testing.T) {
	t.Parallel()
	known := func(bearer string) (Caller, bool) { return Caller{Tenant: "t", Token: bearer}, bearer == "k" }
	withToken := message{headers: "Authorization: Bearer k\r\n", body: "{}"}
	for name, test := range map[string]struct {
		config   Config
		stranger func(t *testing.T, c net.Conn)
		call     message
	}{
		"silent":        {Config{Find: known}, func(*testing.T, net.Conn) {}, withToken},
		"a wrong token": {Config{Find: known}, func(t *testing.T, c net.Conn) { roundTrip(t, c, message{headers: "Authorization: Bearer x\r\n"}) }, withToken},
		"only health": {Config{Find: known}, func(t *testing.T, c net.Conn) {
			roundTrip(t, c, text("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		}, withToken},
		"refused and silent": {Config{Allow: refuseEachSecond()}, func(*testing.T, net.Conn) {}, message{body: "{}"}},
	} {
		test.config.Conns = 8 // and so 4 strangers
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, test.config, func(t *testing.T, _ *Server, dial func() net.Conn) {
				var callers, strangers []net.Conn
				begun := time.Now()
				for range 4 {
					stranger, caller := dial(), dial()
					test.stranger(t, stranger)
					if got := status(t, caller, test.call); got != http.StatusBadRequest { // not for its token
						t.Fatalf("a caller: %d", got)
					}
					callers, strangers = append(callers, caller), append(strangers, stranger)
				}
				if took := time.Since(begun); took != patience {
					t.Errorf("the last caller waited for %v", took)
				}
				for i, want := range []error{io.EOF, os.ErrDeadlineExceeded} {
					strangers[i].SetReadDeadline(time.Now().Add(time.Second))
					if n, err := strangers[i].Read(make([]byte, 1)); !errors.Is(err, want) {
						t.Errorf("stranger %d read %d bytes, %v", i, n, err)
					}
				}
				for _, c := range callers {
					if got := status(t, c, test.call); got != http.StatusBadRequest {
						t.Errorf("a caller loses its connection: %d", got)
					}
				}
			})
		})
	}
}

// refuseEachSecond returns a Config.Allow that refuses the first connection, the third and so on.
func refuseEachSecond() func(net.Conn) error {
	n := 0
	return func(net.Conn) error {
		if n++; n%2 == 1 {
			return errors.New("of another user")
		}
		return nil
	}
}

// TestManyCallersAtOnce: callers that connect at once are not taken for strangers that stay.
func TestManyCallersAtOnce(t *testing.T) {
	t.Parallel()
	find := func(bearer string) (Caller, bool) { return Caller{Tenant: "t", Token: bearer}, true }
	inBubble(t, nil, Config{Find: find, Conns: 64}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() { // ends with its answer
				c := dial()
				time.Sleep(patience / 2) // a slow network does so
				if got := status(t, c, message{headers: "Authorization: Bearer k\r\n", body: "{}"}); got != http.StatusBadRequest {
					t.Error(got)
				}
			})
		}
		all.Wait()
	})
}

// TestConnectionsFollowTheDescriptors: up to a bound, because the limit of descriptors can be a
// million.
func TestConnectionsFollowTheDescriptors(t *testing.T) {
	t.Parallel()
	for descriptors, want := range map[uint64]int{0: 1, 128: 64, 8192: 4096, 1 << 20: 4096, ^uint64(0): 4096} {
		if got := connsWith(descriptors); got != want {
			t.Errorf("%d descriptors: %d connections, want %d", descriptors, got, want)
		}
	}
}

// TestEndsOfAllCalls: calls in flight are answered, and streams and sessions end, when the server
// shuts down and when their token is revoked.
func TestEndsOfAllCalls(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Server){
		"shutdown":   func(s *Server) { s.Shutdown(context.Background()) },
		"revocation": func(s *Server) { s.Revoke("") }, // the name of the token if there are no tokens
	} {
		t.Run(name, func(t *testing.T) {
			inBothEras(t, waiting(nil), Config{}, func(t *testing.T, s *Server, dial func() net.Conn, call message) {
				stream := dial()
				send(t, stream, message{method: http.MethodGet, headers: "Mcp-Session-Id: " + initialize(t, dial()) + "\r\n"})
				_, events := receive(t, stream)
				c := dial()
				send(t, c, call)
				synctest.Wait()
				ended, begun := make(chan struct{}), time.Now()
				go func() { // owned by the test, which waits for it
					defer close(ended)
					end(s)
				}()
				_, r := receive(t, c)
				if body, err := io.ReadAll(r); err != nil || !strings.Contains(string(body), `"text":"answered"`) {
					t.Errorf("%v, %s", err, body)
				}
				if _, err := io.ReadAll(events); err != nil {
					t.Error(err)
				}
				<-ended
				if took := time.Since(begun); took >= aliveEvery {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
				if n := len(s.sessions.all); n != 0 {
					t.Errorf("%d sessions are left", n)
				}
			})
		})
	}
}

// inThisBubble returns how many goroutines the bubble has. Others, such as those of the runtime and
// of tests before, come and go.
func inThisBubble() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)] // ours first
	head, _, _ := bytes.Cut(stacks, []byte("\n"))
	_, bubble, _ := bytes.Cut(head, []byte(", synctest bubble "))
	return bytes.Count(stacks, append([]byte(", synctest bubble "), bubble...))
}

// TestManyRequests: no goroutine is left of many requests and sessions.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	const requests = 200
	inBubble(t, map[string]tool{"tool": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return say("x"), nil }}, Config{},
		func(t *testing.T, s *Server, dial func() net.Conn) {
			c := dial()
			roundTrip(t, c, callOfEra("", "tool"))
			synctest.Wait()
			before := inThisBubble()
			call := callOfEra("", "tool")
			for range requests {
				roundTrip(t, c, call)
			}
			for range requests / 10 {
				id := initialize(t, c)
				roundTrip(t, c, callOfEra(id, "tool"))
				roundTrip(t, c, message{method: http.MethodDelete, headers: "Mcp-Session-Id: " + id + "\r\n"})
			}
			synctest.Wait()
			if after := inThisBubble(); after > before {
				t.Errorf("%d goroutines before, %d after", before, after)
			}
			if n := len(s.sessions.all); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
}
