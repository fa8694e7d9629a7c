package fileserver

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/files"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// raw sends bytes and returns the status and the text of the answer, if there is one before the end.
func raw(t *testing.T, url, text string, then func(net.Conn)) string {
	t.Helper()
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	c := must.Get(net.Dial("tcp", host))(t)
	defer c.Close()
	must.Do(t, c.SetDeadline(time.Now().Add(polltest.Patience)))
	must.Get(io.WriteString(c, text))(t)
	then(c)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.Status + ": " + strings.TrimSpace(string(body))
}

// A body that ends too early, is too large, breaks the protocol or is not sent at all leaves nothing,
// and the answer says what is wrong with it.
func TestBrokenPutLeavesNothing(t *testing.T) {
	url, workspace := serving(t)
	half := func(c net.Conn) { c.(*net.TCPConn).CloseWrite() }
	const chunked = "PUT /files/new/f HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	const short = "400 Bad Request: writing new/f: the body ends too early"
	for name, tt := range map[string]struct{ text, want string }{
		"half a body":      {"PUT /files/new/f HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", short},
		"half a chunk":     {chunked + "10\r\nhalf", short},
		"too large":        {"PUT /files/new/f HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741825\r\n\r\n", "413 Request Entity Too Large: a file of more than 1 GiB can't be sent"},
		"no chunk":         {chunked + "x\r\n", "400 Bad Request: writing new/f: the body can't be read: invalid byte in chunk length"},
		"a long extension": {chunked + "4;" + strings.Repeat("x", 1<<16) + "\r\nfour\r\n0\r\n\r\n", "400 Bad Request: writing new/f: the body can't be read: header line too long"},
	} {
		if got := raw(t, url, tt.text, half); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if got := below(t, workspace); got != "" {
		t.Errorf("it left %q", got)
	}
}

// A client that stops to send or to read is let go, and does no harm.
func TestClientThatStops(t *testing.T) {
	workspace := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(workspace, "f"), make([]byte, 64<<20), 0o644))
	served := make(chan struct{}, 1)
	h := http.StripPrefix("/", &handler{new(files.Store).Dir(workspace), maxSize, 100 * time.Millisecond})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { served <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	wait := func(net.Conn) { <-served }
	if got := raw(t, s.URL, "PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", wait); got != "408 Request Timeout: writing new: nothing of the body came for 30 s" {
		t.Errorf("a body that stops: %q", got)
	}
	raw(t, s.URL, "GET /f HTTP/1.1\r\nHost: x\r\n\r\n", wait)
	if got := below(t, workspace); got != "f" {
		t.Errorf("there are %q", got)
	}
}

// A request whose context ends while its body comes ends too, and is not taken for one that stalls.
func TestRequestIsEndedByTheServer(t *testing.T) {
	workspace := t.TempDir()
	h := New(new(files.Store).Dir(workspace))
	ctx, end := context.WithCancel(t.Context())
	s := httptest.NewServer(http.StripPrefix("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(ctx))
	})))
	defer s.Close()
	got := raw(t, s.URL, "PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", func(net.Conn) {
		polltest.Until(t, "the file to be written", func() bool { return isWritten(t, workspace) })
		end()
	})
	if got != "503 Service Unavailable: writing new: the server has ended this request" {
		t.Error(got)
	}
}

// An endedContext has ended, and has not called yet what AfterFunc was given.
type endedContext struct{ context.Context }

func (endedContext) Err() error { return context.Canceled }

// A client that does not send the rest of a body is answered, and its connection ends.
func TestRequestThatHasEnded(t *testing.T) {
	h := New(new(files.Store).Dir(t.TempDir()))
	s := httptest.NewServer(http.StripPrefix("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(endedContext{t.Context()}))
	})))
	defer s.Close()
	got := raw(t, s.URL, "PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", func(net.Conn) {})
	if got != "503 Service Unavailable: writing new: the server has ended this request" {
		t.Error(got)
	}
}

// isWritten reports whether a file in dir is being written: one that has no name yet, or one that is
// not ready.
func isWritten(t *testing.T, dir string) bool {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return strings.Contains(below(t, dir), ".async-repl-") || slices.ContainsFunc(all, func(e fs.DirEntry) bool {
		link, _ := os.Readlink("/proc/self/fd/" + e.Name()) // an error: it has been closed
		return strings.HasPrefix(link, dir+"/#")
	})
}

// hasNamelessFiles reports whether the file system of dir has files without a name.
func hasNamelessFiles(dir string) bool {
	const tmpfile = 0x410000 // O_TMPFILE of Linux
	f, err := os.OpenFile(dir, tmpfile|os.O_RDWR, 0o600)
	f.Close()
	return runtime.GOOS == "linux" && err == nil
}
