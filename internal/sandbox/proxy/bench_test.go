//go:build linux

package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"asyncrepl/internal/sandbox/proxy"
	"asyncrepl/internal/test/must"
)

// bare serves the least that is a proxy for CONNECT: it dials what it is asked for, and copies.
func bare(b *testing.B) (addr string) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(b)
	b.Cleanup(func() { l.Close() })
	go func() { // ends when the listener is closed
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with its tunnel
				defer client.Close()
				r, err := http.ReadRequest(bufio.NewReader(client))
				if err != nil {
					return
				}
				server, err := net.Dial("tcp", r.RequestURI)
				if err != nil {
					return
				}
				defer server.Close()
				io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
				go func() { // ends with the tunnel
					io.Copy(server, client)
					server.(*net.TCPConn).CloseWrite()
				}()
				io.Copy(client, server)
			}()
		}
	}()
	return l.Addr().String()
}

// each runs a benchmark with the bare proxy, which is the floor, and with the proxy.
func each(b *testing.B, server func(io.ReadWriter), run func(b *testing.B, w *world, target string)) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(b)
	defer l.Close()
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with its tunnel
				defer c.Close()
				server(c)
			}()
		}
	}()
	target := l.Addr().String()
	b.Run("floor", func(b *testing.B) { run(b, &world{Addr: bare(b)}, target) })
	b.Run("proxy", func(b *testing.B) {
		w := newWorld(b, func(c *proxy.Config) { c.Resolve, c.Dial, c.Hosts = nil, nil, parse(b, "127.0.0.1") })
		run(b, w, target)
	})
}

const bulk = 64 << 20

// source sends bytes as fast as they are taken.
func source(c io.Writer) error {
	chunk := make([]byte, 256<<10)
	for sent := 0; sent < bulk; sent += len(chunk) {
		if _, err := c.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// sink takes bytes until their end.
func sink(b *testing.B, r io.Reader) {
	chunk, n := make([]byte, 256<<10), 0
	for {
		got, err := r.Read(chunk)
		if n += got; err == io.EOF {
			break
		} else if err != nil {
			b.Fatal(err)
		}
	}
	if n < bulk {
		b.Fatalf("got %d bytes", n)
	}
}

// BenchmarkBytes measures bytes through a tunnel.
func BenchmarkBytes(b *testing.B) {
	each(b, func(c io.ReadWriter) { source(c) }, func(b *testing.B, w *world, target string) {
		b.SetBytes(bulk)
		for b.Loop() {
			c := w.tunnel(b, target)
			sink(b, c.r)
			c.Close()
		}
	})
}

// BenchmarkPing measures one byte there and back through a tunnel that is open.
func BenchmarkPing(b *testing.B) {
	each(b, func(c io.ReadWriter) { io.Copy(c, c) }, func(b *testing.B, w *world, target string) {
		c := w.tunnel(b, target)
		for b.Loop() {
			c.send(b, "x")
			must.Get(c.r.ReadByte())(b)
		}
	})
}

// BenchmarkTunnel measures opening and closing a tunnel.
func BenchmarkTunnel(b *testing.B) {
	each(b, func(c io.ReadWriter) { io.Copy(c, c) }, func(b *testing.B, w *world, target string) {
		for b.Loop() {
			w.tunnel(b, target).Close()
		}
	})
}

// BenchmarkPlain measures bytes of a response over http, without a tunnel.
func BenchmarkPlain(b *testing.B) {
	w := newWorld(b, nil)
	w.Open.answer(func(rw http.ResponseWriter, _ *http.Request) {
		source(rw)
	})
	client := w.httpClient(b)
	b.SetBytes(bulk)
	for b.Loop() {
		r := must.Get(client.Get("http://open.example/"))(b)
		sink(b, r.Body)
		r.Body.Close()
	}
}
