package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/needtest"
)

// dialAs returns a transport whose connections are another user's. Only a thread of its own changes
// its user, and it ends then.
func dialAs(t *testing.T, uid int, network, address string) *http.Transport {
	t.Helper()
	needtest.Root(t, "become another user")
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				err = errno
				return
			}
			c, err = new(net.Dialer).DialContext(ctx, network, address)
		}()
		<-done
		return c, err
	}}
}

// Without a token, only the server's own user is served on loopback and at a Unix socket. With one,
// the token decides on loopback.
func TestAnotherUserIsRefused(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "socket")
	file := newTokens(t, "alice")
	s := serveWith(t, "-listen", "127.0.0.1:0")
	tokens := serveWith(t, "-listen", "127.0.0.1:0", "-tokens", file.path)
	socket := serveWith(t, "-listen", "unix:"+path, "-tokens", file.path)
	socket.url()
	host := func(s *started) string { return strings.TrimSuffix(strings.TrimPrefix(s.url(), "http://"), "/mcp") }

	check := func(want int, url, token string, over *http.Transport) {
		t.Helper()
		defer over.CloseIdleConnections()
		status, body := request{url: url, token: token, transport: over, message: hello}.answer(t)
		if status != want || want == 403 && !strings.Contains(body, "user 65534 has connected, and this server is for user 0 only") {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	check(403, s.url(), "", dialAs(t, ordinaryID, "tcp", host(s)))
	check(403, strings.Replace(s.url(), "/mcp", "/healthz", 1), "", dialAs(t, ordinaryID, "tcp", host(s)))
	check(200, s.url(), "", dialAs(t, 0, "tcp", host(s)))
	check(200, tokens.url(), file.tokens["alice"], dialAs(t, ordinaryID, "tcp", host(tokens)))
	check(401, tokens.url(), "", dialAs(t, ordinaryID, "tcp", host(tokens)))

	at := "http://localhost/mcp"
	if _, err := (request{url: at, transport: dialAs(t, ordinaryID, "unix", path), message: hello}).send(t); !errors.Is(err, syscall.EACCES) {
		t.Errorf("another user can open the socket: %v", err)
	}
	// The mode alone does not decide: whoever runs the server may change it.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	check(403, at, file.tokens["alice"], dialAs(t, ordinaryID, "unix", path))
	check(200, at, file.tokens["alice"], dialAs(t, 0, "unix", path))
	check(401, at, "", dialAs(t, 0, "unix", path))
}
