package main

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// A wire is a connection to a server over which a test writes what it likes.
type wire struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

// dial connects to the server at a URL.
func dial(t testing.TB, url string) *wire {
	t.Helper()
	scheme, rest, _ := strings.Cut(strings.TrimSuffix(url, "/mcp"), "://")
	var c net.Conn
	var err error
	if scheme == "https" {
		c, err = tls.Dial("tcp", rest, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	} else {
		c, err = net.Dial("tcp", rest)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &wire{c, t, bufio.NewReader(c)}
}

// status reads one answer and returns its status, or 0 if the server has closed the connection.
func (w *wire) status() int {
	w.t.Helper()
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			w.t.Error("no answer, and the connection stays")
		}
		return 0
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

const wireHead = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"

// chunked writes a body as one chunk with an extension.
func chunked(body, extension string) string {
	return fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x%s\r\n%s\r\n0\r\n\r\n", len(body), extension, body)
}

// Each request that is none gets a status or the end of its connection, and a client that was
// there before is not disturbed.
func TestHostileRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("the server waits half a second before it closes some connections")
	}
	s := serveWith(t, "-listen", "127.0.0.1:0", "-toolsets", "core,files")
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.dir), "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := s.url()
	good := newerClient(t, url, "")
	good.do("list_jobs")
	length := fmt.Sprintf("Content-Length: %d\r\n", len(hello))
	cases := map[string]struct {
		sent string
		want []int // statuses, in order; 0: the connection ends
	}{
		"half a body":               {wireHead + "Content-Length: 1000\r\n\r\n" + hello, []int{400, 0}},
		"half a chunk":              {wireHead + "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + hello, []int{400, 0}},
		"half a head":               {wireHead + "X: y", []int{400, 0}},
		"a body that is no JSON":    {wireHead + "Content-Length: 4\r\n\r\n\x00\xff{[", []int{400}},
		"deep JSON":                 {wireHead + "Content-Length: 100000\r\n\r\n" + strings.Repeat("[", 100_000), []int{400}},
		"two different lengths":     {wireHead + length + "Content-Length: 5\r\n\r\n" + hello, []int{400, 0}},
		"the same length twice":     {wireHead + length + length + "\r\n" + hello, []int{200}},
		"two lengths in one":        {wireHead + "Content-Length: 5, 6\r\n\r\n" + hello, []int{400, 0}},
		"a negative length":         {wireHead + "Content-Length: -1\r\n\r\n" + hello, []int{400, 0}},
		"a length with a sign":      {wireHead + "Content-Length: +5\r\n\r\n" + hello, []int{400, 0}},
		"a length of 30 digits":     {wireHead + "Content-Length: " + strings.Repeat("9", 30) + "\r\n\r\n", []int{400, 0}},
		"a length beyond the limit": {wireHead + "Content-Length: 99999999999\r\n\r\n" + hello, []int{413, 0}},
		// Chunks count then, and what a proxy could take for the body's rest is no second request.
		"length and chunks":           {wireHead + "Content-Length: 5\r\n" + chunked(hello, "") + wireHead + length + "\r\n" + hello, []int{200, 0}},
		"chunks twice":                {wireHead + "Transfer-Encoding: chunked\r\n" + chunked(hello, ""), []int{501, 0}},
		"an unknown encoding":         {wireHead + "Transfer-Encoding: gzip, chunked\r\n\r\n", []int{501, 0}},
		"bare LF in chunks":           {wireHead + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\n%s\n0\n\n", len(hello), hello), []int{400, 0}},
		"bare LF after an extension":  {wireHead + chunked(hello, ";a\nb"), []int{400, 0}},
		"a chunk extension":           {wireHead + chunked(hello, ";a=b"), []int{200, 0}},
		"1 MB of chunk extension":     {wireHead + chunked(hello, ";"+strings.Repeat("x", 1<<20)), []int{400, 0}},
		"many chunk extensions":       {wireHead + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 2000)+"\r\n \r\n", 1000), []int{400, 0}},
		"a chunk of a huge size":      {wireHead + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", []int{400, 0}},
		"bare CR in a header":         {wireHead + "X: a\rContent-Length: 5\r\n" + length + "\r\n" + hello, []int{400, 0}},
		"NUL in a header":             {wireHead + "X: \x00\r\n" + length + "\r\n" + hello, []int{400, 0}},
		"a folded header":             {wireHead + "X: a\r\n b\r\n" + length + "\r\n" + hello, []int{200}},
		"a space before the colon":    {wireHead + "X : y\r\n" + length + "\r\n" + hello, []int{400, 0}},
		"a header without a name":     {wireHead + ": y\r\n" + length + "\r\n" + hello, []int{400, 0}},
		"two Hosts":                   {wireHead + "Host: localhost\r\n" + length + "\r\n" + hello, []int{400, 0}},
		"no Host":                     {strings.Replace(wireHead, "Host: 127.0.0.1\r\n", "", 1) + length + "\r\n" + hello, []int{400, 0}},
		"a Host that is none":         {strings.Replace(wireHead, "127.0.0.1", "a b", 1) + length + "\r\n" + hello, []int{400, 0}},
		"1 MB of headers":             {wireHead + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 1000), []int{431, 0}},
		"a header of 1 MB":            {wireHead + "X: " + strings.Repeat("y", 1<<20) + "\r\n\r\n", []int{431, 0}},
		"a path of 1 MB":              {"GET /" + strings.Repeat("y", 1<<20) + " HTTP/1.1\r\n\r\n", []int{431, 0}},
		"dots in the path":            {"GET /mcp/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{404}},
		"NUL in the path":             {"GET /%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{404}},
		"NUL after the path":          {strings.Replace(wireHead, "/mcp", "/mcp%00", 1) + length + "\r\n" + hello, []int{404}},
		"dots to a file":              {getFile("%2e%2e/secret"), []int{403}},
		"dots and a slash to a file":  {getFile("..%2fsecret"), []int{403}},
		"dots after a name":           {getFile("x/../../secret"), []int{404}},
		"two slashes to a file":       {getFile("/etc/passwd"), []int{400}},
		"an absolute path":            {getFile("%2fetc%2fpasswd"), []int{400}},
		"NUL in a file":               {getFile("a%00b"), []int{400}},
		"half a file":                 {"PUT /files/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf", []int{400, 0}},
		"half a file in chunks":       {"PUT /files/half HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\nhalf", []int{400, 0}},
		"a file of 1 TB":              {"PUT /files/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1099511627776\r\n\r\nhalf", []int{413, 0}},
		"a file outside":              {"PUT /files/%2e%2e/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nhalf", []int{403}},
		"half an escape":              {"GET /%2 HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{400, 0}},
		"a whole URL of another host": {strings.Replace(wireHead, "/mcp", "http://evil.example/mcp", 1) + length + "\r\n" + hello, []int{403}},
		"CONNECT":                     {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{404}},
		"TRACE":                       {"TRACE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{405}},
		"a method of 1 MB":            {strings.Repeat("X", 1<<20) + " /mcp HTTP/1.1\r\n\r\n", []int{431, 0}},
		"HTTP/0.9":                    {"GET /mcp\r\n\r\n", []int{400, 0}},
		"HTTP/3.0":                    {"GET /mcp HTTP/3.0\r\n\r\n", []int{505, 0}},
		"HTTP/2 without TLS":          {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400, 0}},
		"TLS":                         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", []int{400, 0}},
		"nothing":                     {"", []int{0}},
		"noise":                       {strings.Repeat("\x00\xff\r\n", 1000), []int{400, 0}},
	}
	t.Run("at once", func(t *testing.T) { // for some the server waits half a second before it closes
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := dial(t, url)
				written := make(chan struct{})
				go func() { // ends with the connection
					defer close(written)
					io.WriteString(w, c.sent)
					if first := c.want[0]; !inSandbox() || slices.Contains(c.want, 0) && first != 413 && first != 200 { // a relay answers no client that seems to have left
						w.Conn.(*net.TCPConn).CloseWrite()
					}
				}()
				for _, want := range c.want {
					if got := w.status(); got != want {
						t.Errorf("status %d, want %d", got, want)
					}
				}
				w.Close()
				<-written
			})
		}
	})
	good.do("list_jobs")
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("the workspace holds %v, %v", left, err)
	}
}

func getFile(path string) string {
	return "GET /files/" + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"
}

// secured starts a server with TLS, and so with HTTP/2.
func secured(t testing.TB) (*started, string, *started) {
	t.Helper()
	cert, key := certificate(t, t.TempDir(), 1, time.Now().Add(time.Hour))
	s := serveWith(t, "-listen", "127.0.0.1:0", "-tls-cert", cert, "-tls-key", key)
	url := s.url()
	good := clientOver(t, url, "", &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true})
	good.do("list_jobs")
	return s, url, good
}

// Types and flags of frames of HTTP/2.
const (
	frameHeaders, frameReset, frameSettings, framePing, frameContinuation = 1, 3, 4, 6, 9

	endStream, endHeaders = 1, 4
)

// frame returns a frame of HTTP/2.
func frame(kind, flags byte, stream uint32, payload string) string {
	var head [9]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(payload))<<8)
	head[3], head[4] = kind, flags
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(head[:]) + payload
}

// field returns a header as HPACK writes one that no table has.
func field(name, value string) string {
	return fmt.Sprintf("\x00%c%s%c%s", len(name), name, len(value), value)
}

// opened begins a connection of HTTP/2.
func opened(t testing.TB, url string) *wire {
	t.Helper()
	w := dial(t, url)
	if got := w.Conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("the protocol is %q", got)
	}
	if _, err := io.WriteString(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(frameSettings, 0, 0, "")); err != nil {
		t.Fatal(err)
	}
	return w
}

// closed reads until the server closes the connection, and reports whether it does.
func (w *wire) closed() bool {
	_, err := io.Copy(io.Discard, w.r)
	return !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed)
}

// A client that resets its requests as fast as it makes them, or never ends their headers, loses its
// connection. Another client is served meanwhile.
func TestLoadHostileHTTP2(t *testing.T) {
	if testing.Short() {
		t.Skip("it sends floods for seconds")
	}
	request := field(":method", "POST") + field(":scheme", "https") + field(":authority", "127.0.0.1") + field(":path", "/mcp")
	s, url, good := secured(t)
	before := s.descriptors()
	cases := map[string]struct {
		ends  bool // the server must end the connection, and not only bear it
		flood func(i uint32) string
	}{
		"rapid reset": {false, func(i uint32) string {
			return frame(frameHeaders, endHeaders, 2*i+1, request) + frame(frameReset, 0, 2*i+1, "\x00\x00\x00\x08")
		}},
		"headers without end": {true, func(i uint32) string {
			if i == 0 {
				return frame(frameHeaders, endStream, 1, request)
			}
			return frame(frameContinuation, 0, 1, strings.Repeat(field("x-y", "z"), 1000))
		}},
		"empty continuations": {false, func(i uint32) string {
			if i == 0 {
				return frame(frameHeaders, endStream, 1, request)
			}
			return frame(frameContinuation, 0, 1, "")
		}},
		"settings":                  {false, func(uint32) string { return frame(frameSettings, 0, 0, "") }},
		"pings":                     {false, func(uint32) string { return frame(framePing, 0, 0, "12345678") }},
		"a frame that is too large": {true, func(uint32) string { return frame(frameHeaders, endHeaders, 1, strings.Repeat("x", 1<<20)) }},
		"a stream that is none":     {true, func(uint32) string { return frame(frameHeaders, endHeaders, 2, request) }},
		"broken compression":        {true, func(uint32) string { return frame(frameHeaders, endHeaders, 1, "\xff\xff\xff\xff\xff") }},
	}
	t.Run("each", func(t *testing.T) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				if c.ends {
					t.Parallel() // the server waits for a second before it closes a connection
				}
				w := opened(t, url)
				ended := make(chan bool, 1)         // read after the flood
				go func() { ended <- w.closed() }() // ends with the connection
				sent := 0
				for ; sent < 20_000; sent++ { // more than maxQueuedControlFrames of net/http
					if _, err := io.WriteString(w, c.flood(uint32(sent))); err != nil {
						break
					}
					if sent%5_000 == 0 {
						good.do("list_jobs")
					}
				}
				if !c.ends {
					w.Close()
				}
				if got := <-ended; c.ends && !got {
					t.Errorf("the server does not end the connection after %d frames", sent)
				}
				good.do("list_jobs")
			})
		}
	})
	polltest.Until(t, "the end of connections", func() bool { return s.descriptors() <= before+s.relayed() })
}

// descriptors returns how many the server has open.
func (s *started) descriptors() int {
	needtest.Linux(s.t, "a list of descriptors")
	return len(must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)))(s.t))
}

// relayed returns how many connections to the processes of tenants a server keeps open for the next calls.
func (s *started) relayed() int {
	if !s.confined {
		return 0
	}
	return 256 // MaxIdleConnsPerHost of internal/serve/relay
}
