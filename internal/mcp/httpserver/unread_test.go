package httpserver

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/serve/metrics"
)

// unread are requests that are answered before their bodies, which never come. All but the last are
// refused.
var unread = []struct {
	name, head string
	status     int
	after      time.Duration
}{
	{"a wrong token", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n", http.StatusUnauthorized, 0},
	{"no token", "POST /mcp HTTP/1.1\r\nHost: localhost\r\n", http.StatusUnauthorized, 0},
	{"a foreign host", "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://other.example\r\n", http.StatusForbidden, 0},
	{"a type", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n", http.StatusUnsupportedMediaType, 0},
	{"the state of the server", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n", http.StatusOK, 0},
	{"no such path", "GET /nothing HTTP/1.1\r\nHost: localhost\r\n", http.StatusNotFound, 0},
	{"a stream", "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nMcp-Session-Id: none\r\n", http.StatusNotFound, 0},
	{"a file that nothing writes", "PUT /files/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n", http.StatusPreconditionFailed, 0},
	{"a file without a token", "PUT /files/x HTTP/1.1\r\nHost: localhost\r\n", http.StatusUnauthorized, 0},
	{"a message", "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\n", http.StatusRequestTimeout, bodyTime},
}

// TestBodyThatNeverComes: a request that is refused is answered before its body, and its connection
// ends. net/http would wait for the body, and hold the connection for as long as its client likes.
func TestBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	c := Config{
		Find: func(bearer string) (Caller, bool) { return Caller{Tenant: "t", Token: "k"}, bearer == "k" },
		Files: func(Caller) Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPreconditionFailed) })
		},
	}
	for _, length := range []string{"Content-Length: 1000", "Content-Length: 1000000", "Transfer-Encoding: chunked"} {
		for _, request := range unread {
			t.Run(request.name+", "+length, func(t *testing.T) {
				inBubble(t, nil, c, func(t *testing.T, _ *Server, dial func() net.Conn) {
					c, begun := dial(), time.Now()
					if _, err := io.WriteString(c, request.head+length+"\r\n\r\n"); err != nil {
						t.Fatal(err)
					}
					answer, r := receive(t, c)
					if took := time.Since(begun); answer.StatusCode != request.status || !answer.Close || took != request.after {
						t.Errorf("%s, closing: %v, after %v", answer.Status, answer.Close, took)
					}
					io.Copy(io.Discard, r)
					c.Read(make([]byte, 1))
					if took := time.Since(begun) - request.after; took > lingerTime {
						t.Errorf("the connection is open for %v after the answer", took)
					}
				})
			})
		}
	}
}

// TestBodyThatCame: a request that was read to its end does not end its connection.
func TestBodyThatCame(t *testing.T) {
	t.Parallel()
	c := Config{Files: func(Caller) Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNoContent)
		})
	}}
	inBubble(t, nil, c, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		for range 2 {
			roundTrip(t, c, message{body: "{}"})
			roundTrip(t, c, text("PUT /files/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"))
			roundTrip(t, c, text("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"))
		}
	})
}

// TestAnswersThatAreNotRead: a client without a token that sends requests and reads no answer is cut
// off.
func TestAnswersThatAreNotRead(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c, begun := dial(), time.Now()
		send(t, c, text("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		if _, err := io.Copy(c, strings.NewReader("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")); err == nil {
			_, err = c.Write([]byte("G")) // the server has read the bytes that it has buffered
			if err == nil {
				t.Error("the server has read a second request")
			}
		}
		if took := time.Since(begun); took != writeTime {
			t.Errorf("cut off after %v", took)
		}
	})
}

// TestPanic: a panic ends its connection, and is an error in the log.
func TestPanic(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"of a handler":   {Ready: func() error { panic("a bug") }},
		"of an observer": {Observe: func(metrics.Request) { panic("a bug") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
			inBubble(t, nil, c, func(t *testing.T, _ *Server, dial func() net.Conn) {
				c := dial()
				send(t, c, text("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "a bug") || !strings.Contains(got, "TestPanic") {
					t.Error(got)
				}
			})
		})
	}
}

// TestAbortedAnswer: an answer that its handler breaks off does not look complete. It is no error of the
// server.
func TestAbortedAnswer(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	files := func(Caller) Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
	}
	inBubble(t, nil, Config{Files: files, Log: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		c := dial()
		send(t, c, text("GET /files/x HTTP/1.1\r\nHost: localhost\r\n\r\n"))
		_, r := receive(t, c)
		if body, err := io.ReadAll(r); err == nil || string(body) != "half" {
			t.Errorf("%v, %s", err, body)
		}
		synctest.Wait()
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
}

// TestHealthOfForeigners: pages of other sites, and names that lead here only since they were
// rebound, can't ask for the state of the server.
func TestHealthOfForeigners(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	local := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	for _, test := range []struct {
		host, origin string
		status       int
	}{
		{"localhost", "", http.StatusOK},
		{"evil.example", "", http.StatusForbidden},
		{"localhost", "https://evil.example", http.StatusForbidden},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(local, http.MethodGet, "http://"+test.host+healthPath, nil)
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		if s.http.Handler.ServeHTTP(w, r); w.Code != test.status {
			t.Errorf("%s, %q: %d", test.host, test.origin, w.Code)
		}
	}
}
