package httpserver

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestLongCallOverHTTP2: an answer over HTTP/2 can take long, although each of its writes has a
// deadline, which ends a stream of HTTP/2 even if nothing is written.
func TestLongCallOverHTTP2(t *testing.T) {
	t.Parallel()
	with := httptest.NewUnstartedServer(nil)
	with.StartTLS() // which gives it a certificate
	with.Close()
	var answer chan struct{}
	config := Config{TLS: &tls.Config{Certificates: with.TLS.Certificates}}
	run := func(t *testing.T, dial func() net.Conn) {
		answer = make(chan struct{})
		transport := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			return tls.Client(dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}), nil
		}}
		defer transport.CloseIdleConnections()
		call := callOfEra("", "tool")
		r, err := http.NewRequest(http.MethodPost, "https://localhost/mcp", strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for line := range strings.SplitSeq(strings.TrimSpace(call.headers), "\r\n") {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		res, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.ProtoMajor != 2 {
			t.Errorf("answered over %s", res.Proto)
		}
		time.Sleep(10 * writeTime)
		close(answer)
		if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "answered") {
			t.Errorf("%v, %s", err, body)
		}
	}
	inBubble(t, waitingFor(&answer), config, func(t *testing.T, _ *Server, dial func() net.Conn) { run(t, dial) })
	passing(t, waitingFor(&answer), Config{}, config, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) { run(t, dial) })
	before(t, func(w http.ResponseWriter, _ *http.Request) { // without comments
		io.WriteString(w, "data: \n\n")
		http.NewResponseController(w).Flush()
		time.Sleep(5 * writeTime)
		io.WriteString(w, "data: answered\n\n")
	}, config, func(t *testing.T, _ *Server, _ *behind, dial func() net.Conn) { run(t, dial) })
}
