//go:build linux

package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/test/must"
)

// raw serves requests over HTTP with answers that it writes as they are.
func raw(answer func(rw *bufio.ReadWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		answer(rw, r)
		rw.Flush()
	}
}

// A connection carries requests to several hosts. Each goes where its URL says, with the Host of its URL.
func TestRequestsOfOneConnection(t *testing.T) {
	w := newWorld(t, nil)
	c := w.connect(t)
	for _, test := range []struct {
		url, host string
		status    int
	}{
		{"http://open.example/", "open.example", 200},
		{"http://A.Below.example.:8080/", "a.below.example:8080", 200},
		{"http://evil.example/", "", 403},
		{"http://[2001:db8:0::9]/", "[2001:db8::9]", 200},
		{"http://10.9.9.9:80/", "10.9.9.9", 200},
		{"http://10.9.9.9:81/", "", 403},
		{"http://open.example/", "open.example", 200},
	} {
		_, before := w.Open.seen()
		c.send(t, "GET "+test.url+" HTTP/1.1\r\nHost: evil.example\r\n\r\n")
		if r, body := c.answer(t, ""); r.StatusCode != test.status {
			t.Fatalf("%s: got %s\n%s", test.url, r.Status, body)
		}
		_, requests := w.Open.seen()
		if requests = requests[len(before):]; test.host == "" && len(requests) > 0 || test.host != "" && (len(requests) != 1 || requests[0].Host != test.host) {
			t.Errorf("%s: the server got %d requests: %v", test.url, len(requests), requests)
		}
	}
	w.untouched(t)
}

// The server gets the request that its client would have sent without a proxy.
func TestRequestIsPassedOn(t *testing.T) {
	w := newWorld(t, nil)
	w.Open.answer(func(rw http.ResponseWriter, r *http.Request) { rw.Write(must.Get(httputil.DumpRequest(r, true))(t)) })
	c := w.connect(t)
	c.send(t, "PUT http://open.example//a%2Fb/../c?x=%zz;y&z HTTP/1.1\r\nHost: evil.example\r\n"+
		"Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nProxy-Odd: 1\r\nConnection: X-Mine, keep-alive, Upgrade\r\nX-Mine: 1\r\n"+
		"Keep-Alive: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Forwarded-For: 192.0.2.9\r\nForwarded: for=x\r\n"+
		"Authorization: Basic YQ==\r\nContent-Length: 4\r\n\r\nbody")
	r, got := c.answer(t, "")
	want := "PUT //a%2Fb/../c?x=%zz;y&z HTTP/1.1\r\nHost: open.example\r\n" +
		"Authorization: Basic YQ==\r\nConnection: close\r\nContent-Length: 4\r\nForwarded: for=x\r\nTe: trailers\r\nX-Forwarded-For: 192.0.2.9\r\n\r\nbody"
	if got != want {
		t.Errorf("got %s\n%s\nwant\n%s", r.Status, got, want)
	}
}

// The client gets the response as the server has sent it: nothing is added, and hop-by-hop headers are not
// passed on.
func TestResponseIsPassedOn(t *testing.T) {
	w := newWorld(t, nil)
	w.Open.answer(raw(func(rw *bufio.ReadWriter, _ *http.Request) {
		rw.WriteString("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nProxy-Authenticate: Basic\r\nConnection: X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 1\r\nX-Theirs: 1\r\nContent-Length: 6\r\n\r\n<html>")
	}))
	c := w.connect(t)
	c.send(t, "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\nConnection: close\r\n\r\n")
	lines := func(text string) []string { return slices.Sorted(strings.Lines(text)) }
	want := "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nX-Theirs: 1\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"
	if got := string(must.Get(io.ReadAll(c))(t)); !slices.Equal(lines(got), lines(want)) {
		t.Errorf("got\n%s\nwant, with its headers in any order\n%s", got, want)
	}
}

// A response comes as it is written, and not when it is complete.
func TestResponseIsStreamed(t *testing.T) {
	w := newWorld(t, nil)
	next := make(chan struct{})
	w.Open.answer(func(rw http.ResponseWriter, _ *http.Request) {
		for i := range 3 {
			fmt.Fprintf(rw, "data: %d\n", i)
			rw.(http.Flusher).Flush()
			<-next
		}
	})
	r := must.Get(w.httpClient(t).Get("http://open.example/"))(t)
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	for i := range 3 {
		if got, err := lines.ReadString('\n'); err != nil || got != fmt.Sprintf("data: %d\n", i) {
			t.Errorf("got %q, %v", got, err)
		}
		next <- struct{}{}
	}
}

// A server that answers before it has read the request has its answer delivered, and the rest of the request
// is passed on.
func TestEarlyAnswer(t *testing.T) {
	w := newWorld(t, nil)
	w.Open.answer(func(rw http.ResponseWriter, r *http.Request) {
		http.NewResponseController(rw).EnableFullDuplex()
		rw.WriteHeader(200)
		rw.(http.Flusher).Flush()
		io.Copy(rw, r.Body)
	})
	body := strings.Repeat("0123456789", 20_000)
	client := w.httpClient(t)
	for i := range 100 {
		r := must.Get(client.Post("http://open.example/", "", io.MultiReader(strings.NewReader(body))))(t)
		got, err := io.ReadAll(r.Body)
		r.Body.Close()
		if string(got) != body || err != nil {
			t.Fatalf("%d: got %d bytes, %v", i, len(got), err)
		}
	}
}

// A response that the server cuts is cut for the client, too.
func TestCutResponse(t *testing.T) {
	w := newWorld(t, nil)
	w.Open.answer(raw(func(rw *bufio.ReadWriter, _ *http.Request) {
		rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	}))
	r := must.Get(w.httpClient(t).Get("http://open.example/"))(t)
	defer r.Body.Close()
	if got, err := io.ReadAll(r.Body); err == nil || string(got) != "half" {
		t.Errorf("got %q, %v", got, err)
	}
}

// What a server answers wrongly is 502.
func TestServerThatMisbehaves(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":                  "",
		"no HTTP":                  "SSH-2.0-x\r\n",
		"switch that nobody asked": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"switch to h2c":            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"1 MB of headers":          "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.Open.answer(raw(func(rw *bufio.ReadWriter, _ *http.Request) { rw.WriteString(answer) }))
			c := w.connect(t)
			c.send(t, "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n")
			if r, body := c.answer(t, ""); r.StatusCode != 502 {
				t.Errorf("got %s\n%s", r.Status, body)
			}
		})
	}
}

// Trailers, HEAD, 204, 304 and HTTP/1.0 are what they are without a proxy.
func TestOtherShapesOfHTTP(t *testing.T) {
	w := newWorld(t, nil)
	w.Open.answer(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/trailer":
			rw.Header().Set("Trailer", "X-Sum")
			io.WriteString(rw, "body")
			rw.Header().Set("X-Sum", "1")
		case "/head":
			rw.Header().Set("Content-Length", "1000")
		case "/304":
			rw.WriteHeader(304)
		case "/204":
			rw.WriteHeader(204)
		default:
			io.Copy(rw, r.Body)
		}
	})
	client := w.httpClient(t)
	r := must.Get(client.Get("http://open.example/trailer"))(t)
	body := must.Get(io.ReadAll(r.Body))(t)
	if r.Body.Close(); string(body) != "body" || r.Trailer.Get("X-Sum") != "1" {
		t.Errorf("got %q, trailer %v", body, r.Trailer)
	}
	if r := must.Get(client.Head("http://open.example/head"))(t); r.ContentLength != 1000 {
		t.Errorf("HEAD: got a length of %d", r.ContentLength)
	}
	for _, status := range []int{204, 304} {
		if r := must.Get(client.Get(fmt.Sprintf("http://open.example/%d", status)))(t); r.StatusCode != status || r.ContentLength > 0 {
			t.Errorf("got %s, %d bytes", r.Status, r.ContentLength)
		}
	}
	request := must.Get(http.NewRequest("POST", "http://open.example/", strings.NewReader("expected")))(t)
	request.Header.Set("Expect", "100-continue")
	r = must.Get(client.Do(request))(t)
	body = must.Get(io.ReadAll(r.Body))(t)
	if r.Body.Close(); string(body) != "expected" {
		t.Errorf("Expect: got %q", body)
	}
	c := w.connect(t)
	c.send(t, "POST http://open.example/ HTTP/1.0\r\nContent-Length: 3\r\n\r\nold")
	if r, body := c.answer(t, ""); body != "old" || !r.Close {
		t.Errorf("HTTP/1.0: got %s, %q", r.Status, body)
	}
	c.ended()
}
