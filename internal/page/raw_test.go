//go:build unix

package page_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"asyncrepl/internal/test/must"
)

// A raw page speaks WebSocket itself: it answers pings when it likes.
type raw struct {
	t testing.TB
	net.Conn
	r   *bufio.Reader
	buf []byte
}

// upgrade makes a connection one of WebSocket.
func upgrade(t testing.TB, c net.Conn) *raw {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	p := &raw{t, c, bufio.NewReader(c), nil}
	fmt.Fprint(c, "GET /api/live HTTP/1.1\r\nHost: page\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	res := must.Get(http.ReadResponse(p.r, nil))(t)
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res.Status)
	}
	return p
}

// Frames of RFC 6455.
const (
	textFrame = 0x81
	pingFrame = 0x89
	pongFrame = 0x8a
)

// frame reads the next frame. Its payload is valid until the next call.
func (p *raw) frame() (kind byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(p.r, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, err = io.ReadFull(p.r, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	p.buf = slices.Grow(p.buf[:0], int(n))
	payload = p.buf[:n]
	if err == nil {
		_, err = io.ReadFull(p.r, payload)
	}
	return head[0], payload, err
}

// send sends a short frame, whose mask is zero.
func (p *raw) send(kind byte, payload string) {
	p.t.Helper()
	must.Get(p.Write(append([]byte{kind, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)))(p.t)
}

// dialRaw opens a page on a server.
func dialRaw(t testing.TB, s *httptest.Server) *raw {
	t.Helper()
	return upgrade(t, must.Get(net.Dial("tcp", s.Listener.Addr().String()))(t))
}

// nextOf returns the cursor after the output in a message, and whether it has output.
func nextOf(message []byte) (next int64, found bool) {
	_, rest, found := bytes.Cut(message[:min(len(message), 200)], []byte(`"next":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	next, _ = strconv.ParseInt(string(digits), 10, 64)
	return next, found
}

// drawn says what the page has drawn.
func (p *raw) drawn(job string, cursor int64) {
	p.t.Helper()
	p.send(textFrame, fmt.Sprintf(`{"op":"drawn","job":"%s","cursor":%d}`, job, cursor))
}

// A crowd is pages of one job.
type crowd struct {
	job     string
	pages   []*raw
	end     atomic.Int64 // the end of the output; -1: there is none yet
	saw     atomic.Int32 // pages that have seen that end
	reading sync.WaitGroup
}

// watch opens pages of a job. Those that read say of all that it is drawn.
func (w *world) watch(n int, job string, read bool) *crowd {
	w.t.Helper()
	c := &crowd{job: job}
	c.end.Store(-1)
	for range n {
		p := dialRaw(w.t, w.server)
		p.send(textFrame, `{"op":"open","job":"`+job+`"}`)
		c.pages = append(c.pages, p)
		if read {
			c.reading.Go(func() { c.read(p) }) // joined by leave; ends with the output, or with the connection
		}
	}
	return c
}

// read reads all that a page is sent, up to the end of the output.
func (c *crowd) read(p *raw) {
	for at := int64(0); at != c.end.Load(); {
		_, message, err := p.frame()
		if err != nil {
			return
		}
		if next, found := nextOf(message); found {
			at = next
			p.drawn(c.job, at)
		}
	}
	c.saw.Add(1)
}

// leave closes the pages.
func (c *crowd) leave() {
	for _, p := range c.pages {
		p.Close()
	}
	c.reading.Wait()
}
