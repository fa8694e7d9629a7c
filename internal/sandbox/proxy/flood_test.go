//go:build linux

package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/sandbox/proxy"
	"asyncrepl/internal/test/fdtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

func parse(t testing.TB, list string) []sandbox.Host { return must.Get(sandbox.ParseHosts(list))(t) }

// arrived returns how many bytes a connection has received that were not read.
func arrived(t testing.TB, c *net.TCPConn) (n int) {
	t.Helper()
	must.Do(t, must.Get(c.SyscallConn())(t).Control(func(fd uintptr) { n = must.Get(unix.IoctlGetInt(int(fd), unix.TIOCINQ))(t) }))
	return n
}

// works fails the test if the proxy does not serve the next client.
func (w *world) works(t testing.TB) {
	t.Helper()
	c := w.connect(t)
	defer c.Close()
	c.send(t, "GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\nConnection: close\r\n\r\n")
	if r, body := c.answer(t, ""); body != "hello from open" {
		t.Errorf("got %s, %q", r.Status, body)
	}
}

func TestHeaderIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	for _, begin := range []string{"GET http://open.example/ HTTP/1.1\r\nHost: open.example\r\n", "CONNECT open.example:443 HTTP/1.1\r\n", "GET http://open.example/", ""} {
		c := w.connect(t)
		c.send(t, begin)
		// The proxy would have to read all of it, so that it does not shows in a write that fails.
		line := "X-Header: " + strings.Repeat("x", 1000) + "\r\n"
		if begin == "" || strings.HasSuffix(begin, "/") {
			line = strings.Repeat("x", 1000)
		}
		for {
			if _, err := io.WriteString(c, line); err != nil {
				break
			}
		}
	}
	c := w.connect(t)
	c.send(t, "CONNECT open.example:443 HTTP/1.1\r\nX: "+strings.Repeat("x", 36<<10))
	if r, _ := c.answer(t, ""); r.StatusCode != 431 {
		t.Errorf("got %s", r.Status)
	}
	w.untouched(t)
	if n, _ := w.Open.seen(); n > 0 {
		t.Errorf("the server had %d connections", n)
	}
	w.works(t)
}

func TestSilentClientIsLeft(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) { c.SetHeaderLimit(50 * time.Millisecond) })
	for _, begin := range []string{"", "C", "CONNECT open.example:443 HTTP/1.1\r\n", "GET http://open.example/ HTTP/1.1\r\nHost: "} {
		c := w.connect(t)
		c.send(t, begin)
		c.ended()
	}
}

// Beyond a number of connections a client gets an answer and is closed. Each that leaves makes room.
func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	var open []*client
	for range proxy.MostConnections {
		open = append(open, w.connect(t))
	}
	for range 200 {
		c := w.connect(t)
		if r, body := c.answer(t, ""); r.StatusCode != 503 || !strings.Contains(body, "1000 connections") {
			t.Fatalf("got %s\n%s", r.Status, body)
		}
		c.ended()
	}
	open[0].Close()
	polltest.Until(t, "room for one client", func() bool {
		c := w.connect(t)
		defer c.Close()
		io.WriteString(c, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
		r, err := http.ReadResponse(c.r, nil)
		return err == nil && r.StatusCode == 403
	})
	// A tunnel counts until its end, and is not counted twice.
	for _, c := range open[1:] {
		c.Close()
	}
	var tunnels []*client
	for range 100 {
		tunnels = append(tunnels, w.tunnel(t, "open.example:443"))
	}
	polltest.Until(t, "only tunnels", func() bool { return w.Proxy.Clients() == 100 })
	for _, c := range tunnels {
		c.Close()
	}
	polltest.Until(t, "no client", func() bool { return w.Proxy.Clients() == 0 })
}

// Close ends whatever its clients do, and leaves no goroutine.
func TestCloseEndsAll(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t) // a server that accepts and does nothing
	defer silent.Close()
	before := runtime.NumGoroutine()
	dialling := make(chan struct{})
	w := newWorld(t, func(c *proxy.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
			switch to.Port() {
			case 1:
				return new(net.Dialer).DialTCP(ctx, "tcp", netip.AddrPort{}, silent.Addr().(*net.TCPAddr).AddrPort())
			case 2:
				close(dialling)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, to)
		}
	})
	clients := []*client{w.connect(t)}
	add := func(request string) {
		c := w.connect(t)
		c.send(t, request)
		clients = append(clients, c)
	}
	add("GET http://op")
	add("GET http://open.example:1/ HTTP/1.1\r\nHost: x\r\n\r\n")
	add("POST http://open.example:1/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	add("CONNECT open.example:2 HTTP/1.1\r\n\r\n")
	for range 20 {
		clients = append(clients, w.tunnel(t, "open.example:1"))
	}
	half := w.tunnel(t, "open.example:1")
	must.Do(t, half.CloseWrite())
	clients = append(clients, half)
	add("GET http://open.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	clients[len(clients)-1].answer(t, "") // and the connection stays
	<-dialling
	w.Proxy.Close()
	for _, c := range clients {
		c.ended()
	}
	if n := w.Proxy.Clients(); n != 0 {
		t.Errorf("%d clients are left", n)
	}
	w.Proxy.Close() // again
	if c, err := net.Dial("tcp", w.Addr); err == nil {
		c.Close()
		t.Error("Close left the listener open")
	}
	w.Open.http.Close()
	w.Secret.http.Close()
	polltest.Check(t, func() error {
		if n := runtime.NumGoroutine(); n > before {
			stack := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, and %d before\n%s", n, before, stack[:runtime.Stack(stack, true)])
		}
		return nil
	})
}

// failing is a listener whose accept fails once fail is closed.
type failing struct {
	net.Listener
	fail chan struct{}
}

var errFailed = errors.New("failed")

func (l failing) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	select {
	case <-l.fail:
		return nil, errFailed
	default:
		return c, err
	}
}

// If the listener fails, it is closed, and tunnels stay.
func TestListenerThatFails(t *testing.T) {
	w := newWorld(t, nil)
	f := failing{must.Get(net.Listen("tcp", "127.0.0.1:0"))(t), make(chan struct{})}
	w.serve(f)
	w.Addr = f.Addr().String()
	c := w.tunnel(t, "open.example:80")
	close(f.fail)
	polltest.Until(t, "the listener is closed", func() bool {
		c, err := net.Dial("tcp", w.Addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	c.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, body := c.answer(t, ""); body != "hello from open" {
		t.Errorf("got %q", body)
	}
}

// A descriptor that is no listener, or a listener of Unix sockets, does no harm.
func TestDescriptorThatIsNoListener(t *testing.T) {
	w := newWorld(t, nil)
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0))(t)
	defer unix.Close(fds[1])
	f := os.NewFile(uintptr(fds[0]), "pair")
	if l, err := net.FileListener(f); err == nil {
		w.serve(l)
		w.Proxy.Close()
	}
	f.Close()
	l := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	w.serve(l)
	c := must.Get(net.Dial("unix", l.Addr().String()))(t)
	defer c.Close()
	io.WriteString(c, "CONNECT open.example:443 HTTP/1.1\r\n\r\n")
	if got, err := bufio.NewReader(c).ReadString('\n'); err == nil {
		t.Errorf("got %q", got)
	}
	w.works(t)
}

// The process that sent a listener can make it blocking. The proxy ends all the same.
func TestBlockingListener(t *testing.T) {
	w := newWorld(t, nil)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t).(*net.TCPListener)
	w.serve(l)
	w.Addr = l.Addr().String()
	w.works(t)
	must.Do(t, must.Get(l.SyscallConn())(t).Control(func(fd uintptr) { must.Do(t, syscall.SetNonblock(int(fd), false)) }))
	w.works(t) // the next accept blocks
	polltest.Until(t, "a thread to block in accept", func() bool {
		calls, _ := filepath.Glob("/proc/self/task/*/syscall")
		for _, path := range calls {
			if text, _ := os.ReadFile(path); strings.HasPrefix(string(text), fmt.Sprint(unix.SYS_ACCEPT4)+" ") {
				return true
			}
		}
		return false
	})
	w.Proxy.Close()
}

// The process that sent a listener can have connections linger when they are closed. The proxy ends all the same.
func TestLingeringListener(t *testing.T) {
	w := newWorld(t, nil)
	w.Open.answer(func(rw http.ResponseWriter, _ *http.Request) { source(rw) })
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t).(*net.TCPListener)
	must.Do(t, must.Get(l.SyscallConn())(t).Control(func(fd uintptr) {
		must.Do(t, unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}))
	}))
	w.serve(l)
	w.Addr = l.Addr().String()
	c := w.tunnel(t, "open.example:80")
	c.send(t, "GET / HTTP/1.0\r\n\r\n")
	sockets := fmt.Sprintf("0100007F:%04X 0100007F:%04X 01 ", l.Addr().(*net.TCPAddr).Port, c.LocalAddr().(*net.TCPAddr).Port)
	polltest.Until(t, "the client to be full", func() bool {
		table := string(must.Get(os.ReadFile("/proc/self/net/tcp"))(t))
		_, queue, found := strings.Cut(table, sockets)
		return found && !strings.HasPrefix(queue, "00000000") && arrived(t, c.TCPConn) >= 32<<10
	})
	w.Proxy.Close()
}

// Without a free descriptor tunnels pass bytes, and clients are served when there are descriptors again.
func TestNoDescriptors(t *testing.T) {
	w := newWorld(t, nil)
	c := w.tunnel(t, "open.example:80")
	c.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	c.answer(t, "")
	late := os.NewFile(uintptr(must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)), "late")
	defer late.Close()
	restore := fdtest.Exhaust(t)
	runtime.GC() // drops the pipes that are kept
	runtime.GC()
	body := strings.Repeat("x", 1<<20)
	go c.send(t, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)) // joined by the answer
	_, got := c.answer(t, "")
	at := netip.MustParseAddrPort(w.Addr)
	err := unix.Connect(int(late.Fd()), &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	restore()
	if got != body || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	conn := must.Get(net.FileConn(late))(t)
	defer conn.Close()
	c = &client{TCPConn: conn.(*net.TCPConn), r: bufio.NewReader(conn)}
	c.send(t, "GET http://open.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if r, body := c.answer(t, ""); body != "hello from open" {
		t.Errorf("got %s, %q", r.Status, body)
	}
}
