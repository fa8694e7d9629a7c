//go:build linux

package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/sandbox/proxy"
	"asyncrepl/internal/test/must"
)

// httpClient returns a client that uses the proxy.
func (w *world) httpClient(t testing.TB) *http.Client {
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: w.Addr}), DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// tunnel opens a tunnel to a target.
func (w *world) tunnel(t testing.TB, target string) *client {
	t.Helper()
	c := w.connect(t)
	c.send(t, "CONNECT "+target+" HTTP/1.1\r\n\r\n")
	if r, body := c.answer(t, "CONNECT"); r.StatusCode != 200 {
		t.Fatalf("%s: got %s\n%s", target, r.Status, body)
	}
	return c
}

func TestListedHostsAreReached(t *testing.T) {
	w := newWorld(t, nil)
	for _, test := range []struct{ target, dialled string }{
		{"open.example:443", "93.184.216.34:443"},
		{"OPEN.Example.:8080", "93.184.216.34:8080"},
		{"a.below.example:443", "[2606:2800::1]:443"},
		{"a.b.below.example:443", "93.184.216.34:443"},
		{"nat64.below.example:443", "[64:ff9b::5db8:d822]:443"},
		{"mixed.below.example:443", "93.184.216.34:443"},
		{"listed.below.example:80", "10.9.9.9:80"},
		{"loop.below.example:443", "127.9.9.9:443"},
		{"six.below.example:443", "[2001:db8::9]:443"},
		{"10.9.9.9:80", "10.9.9.9:80"},
		{"[::ffff:10.9.9.9]:80", "10.9.9.9:80"},
		{"[2001:DB8:0::9]:443", "[2001:db8::9]:443"},
		{"127.9.9.9:1", "127.9.9.9:1"},
		{"pypi.org:443", "93.184.216.34:443"},
	} {
		w.note(func() { w.dialled = nil })
		c := w.tunnel(t, test.target)
		c.send(t, "GET / HTTP/1.1\r\nHost: any.example\r\n\r\n")
		if _, body := c.answer(t, ""); body != "hello from open" {
			t.Errorf("%s: got %q", test.target, body)
		}
		w.note(func() {
			if want := []netip.AddrPort{netip.MustParseAddrPort(test.dialled)}; !slices.Equal(w.dialled, want) {
				t.Errorf("%s: dialled %v, want %v", test.target, w.dialled, want)
			}
		})
		c.Close()
	}
	w.untouched(t)
}

// All that a client sends behind CONNECT goes through the tunnel, however early it comes.
func TestTunnelKeepsWhatCameEarly(t *testing.T) {
	w := newWorld(t, nil)
	c := w.connect(t)
	body := strings.Repeat("a", 100_000)
	c.send(t, fmt.Sprintf("CONNECT open.example:80 HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if r, _ := c.answer(t, "CONNECT"); r.StatusCode != 200 {
		t.Fatalf("got %s", r.Status)
	}
	if _, got := c.answer(t, ""); got != body {
		t.Errorf("got %d bytes", len(got))
	}
}

// One direction of a tunnel can end before the other, whichever it is.
func TestHalfClosedTunnel(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	w := newWorld(t, func(c *proxy.Config) {
		c.Dial = func(ctx context.Context, _ netip.AddrPort) (*net.TCPConn, error) {
			return new(net.Dialer).DialTCP(ctx, "tcp", netip.AddrPort{}, l.Addr().(*net.TCPAddr).AddrPort())
		}
	})
	for _, order := range []string{"client first", "server first"} {
		t.Run(order, func(t *testing.T) {
			c := w.tunnel(t, "open.example:1")
			s := must.Get(l.Accept())(t).(*net.TCPConn)
			defer s.Close()
			first, second := c.TCPConn, s
			if order == "server first" {
				first, second = second, first
			}
			must.Get(io.WriteString(first, "question"))(t)
			must.Do(t, first.CloseWrite())
			if got := must.Get(io.ReadAll(second))(t); string(got) != "question" {
				t.Errorf("got %q", got)
			}
			answer := bytes.Repeat([]byte("answer"), 100_000)
			go func() { // joined by the read of all it sends
				second.Write(answer)
				second.CloseWrite()
			}()
			if got := must.Get(io.ReadAll(first))(t); !bytes.Equal(got, answer) {
				t.Errorf("got %d bytes", len(got))
			}
		})
	}
}

// A server that ignores the end of its client, or a client that does not read what follows, holds the tunnel no
// longer than halfLimit.
func TestHalfClosedTunnelEnds(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	w := newWorld(t, func(c *proxy.Config) {
		c.Resolve, c.Dial, c.Hosts = nil, nil, parse(t, "127.0.0.1")
		c.SetHalfLimit(50 * time.Millisecond)
	})
	for _, sends := range []bool{false, true} {
		c := w.tunnel(t, l.Addr().String())
		s := must.Get(l.Accept())(t).(*net.TCPConn)
		defer s.Close()
		must.Do(t, c.CloseWrite())
		if sends { // and the client does not read
			for {
				if err := source(s); err != nil {
					break
				}
			}
		}
		c.ended()
	}
}

// If one end of a tunnel breaks, the other is closed.
func TestBrokenTunnel(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	w := newWorld(t, func(c *proxy.Config) {
		c.Dial = func(ctx context.Context, _ netip.AddrPort) (*net.TCPConn, error) {
			return new(net.Dialer).DialTCP(ctx, "tcp", netip.AddrPort{}, l.Addr().(*net.TCPAddr).AddrPort())
		}
	})
	for _, order := range []string{"client", "server"} {
		t.Run(order, func(t *testing.T) {
			c := w.tunnel(t, "open.example:1")
			s := must.Get(l.Accept())(t).(*net.TCPConn)
			defer s.Close()
			breaks, other := c.TCPConn, s
			if order == "server" {
				breaks, other = other, breaks
			}
			must.Do(t, breaks.SetLinger(0)) // sends a reset
			must.Do(t, breaks.Close())
			io.Copy(io.Discard, other)
		})
	}
}

// What can't be reached is answered with the reason, in the phrase of the status, too.
func TestUnreached(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) {
		resolve := c.Resolve
		c.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			if name == "gone.below.example" {
				return nil, errors.New("no such host")
			}
			return resolve(ctx, name)
		}
	})
	for _, test := range []struct{ host, reason string }{
		{"down.below.example", "connection refused"},
		{"none.below.example", "no address"},
		{"gone.below.example", "no such host"},
	} {
		c := w.connect(t)
		c.send(t, "CONNECT "+test.host+":443 HTTP/1.1\r\n\r\n")
		if r, body := c.answer(t, "CONNECT"); r.StatusCode != 502 || !strings.Contains(r.Status, test.reason) || !strings.Contains(body, test.host+":443") {
			t.Errorf("CONNECT %s: got %s\n%s", test.host, r.Status, body)
		}
		c.ended()
		c = w.connect(t)
		c.send(t, "GET http://"+test.host+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
		if r, body := c.answer(t, ""); r.StatusCode != 502 || !strings.Contains(body, test.reason) {
			t.Errorf("GET %s: got %s\n%s", test.host, r.Status, body)
		}
	}
	if r, err := w.httpClient(t).Get("http://second.below.example/"); err != nil || r.StatusCode != 200 {
		t.Errorf("a name whose first address does not answer: got %v, %v", r, err)
	} else {
		r.Body.Close()
	}
	w.note(func() { w.dialled = nil })
	w.tunnel(t, "both.below.example:443")
	w.note(func() {
		if got, want := fmt.Sprint(w.dialled), "[[2606:2800:0:99::1]:443 93.184.216.34:443]"; got != want {
			t.Errorf("a name with addresses of both families: dialled %s, want %s", got, want)
		}
		if w.refusals != nil {
			t.Errorf("refusals %v", w.refusals)
		}
	})
}

// While a refusal is noted, the client has no answer, and its connection can be found by its port.
func TestRefusalIsNotedBeforeItsAnswer(t *testing.T) {
	noted := make(chan proxy.Refusal)
	seen := make(chan struct{})
	w := newWorld(t, func(c *proxy.Config) {
		c.Refused = func(ctx context.Context, r proxy.Refusal) {
			noted <- r
			<-seen
		}
	})
	for _, test := range []struct {
		request string
		want    proxy.Refusal
	}{
		{"CONNECT Evil.example.:443 HTTP/1.1\r\n\r\n", proxy.Refusal{Method: "CONNECT", Host: "evil.example", Port: 443}},
		{"CONNECT [::1]:80 HTTP/1.1\r\n\r\n", proxy.Refusal{Method: "CONNECT", Host: "::1", Port: 80}},
		{"DELETE http://evil.example/ HTTP/1.1\r\nHost: open.example\r\n\r\n", proxy.Refusal{Method: "HTTP", Host: "evil.example", Port: 80}},
		{"CONNECT x10_0_0_1x.address.below.example:443 HTTP/1.1\r\n\r\n", proxy.Refusal{Method: "CONNECT", Host: "10.0.0.1", Port: 443}},
	} {
		c := w.connect(t)
		c.send(t, test.request)
		test.want.Source = c.LocalAddr().(*net.TCPAddr).Port
		if got := <-noted; got != test.want {
			t.Errorf("%q: noted %v, want %v", test.request, got, test.want)
		}
		if n := arrived(t, c.TCPConn); n > 0 {
			t.Errorf("%q: %d bytes were answered before the refusal was noted", test.request, n)
		}
		table := string(must.Get(os.ReadFile("/proc/self/net/tcp"))(t))
		if want := fmt.Sprintf(":%04X 0100007F:%04X 01 ", test.want.Source, netip.MustParseAddrPort(w.Addr).Port()); !strings.Contains(table, want) {
			t.Errorf("%q: the connection is not open", test.request)
		}
		seen <- struct{}{}
		if r, body := c.answer(t, ""); r.StatusCode != 403 || !strings.Contains(body, setting) {
			t.Errorf("%q: got %s\n%s", test.request, r.Status, body)
		}
	}
}

// An inner process that notes nothing delays an answer, and no more.
func TestNoteIsBounded(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) {
		c.Refused = func(ctx context.Context, _ proxy.Refusal) {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) > 200*time.Millisecond {
				t.Errorf("the note ends at %v", end)
			}
			<-ctx.Done()
		}
	})
	c := w.connect(t)
	c.send(t, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
	if r, _ := c.answer(t, "CONNECT"); r.StatusCode != 403 || !strings.Contains(r.Status, "evil.example:443 is not in "+setting) {
		t.Errorf("got %s", r.Status)
	}
}

// The machine's own resolver and network are used unless a test replaces them.
func TestMachineResolvesAndDials(t *testing.T) {
	w := newWorld(t, func(c *proxy.Config) {
		c.Resolve, c.Dial = nil, nil
		c.Hosts = append(c.Hosts, parse(t, "localhost,127.0.0.1,[::1]")...)
	})
	c := w.tunnel(t, fmt.Sprintf("localhost:%d", w.Open.port()))
	c.send(t, "GET / HTTP/1.1\r\nHost: any.example\r\n\r\n")
	if _, body := c.answer(t, ""); body != "hello from open" {
		t.Errorf("got %q", body)
	}
}
