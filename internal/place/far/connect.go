package far

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// maxRequests is how many requests can be under way on a link: one for each job that runs or is queued there.
	maxRequests = 5000
	// frameSize bounds the frames of HTTP/2 that a client takes. Larger ones would cost less, but a link on
	// which none is complete within the times of a ping is lost, and some links are slow.
	frameSize = 64 << 10

	// A link that has been silent for pingAfter is asked whether it lives, and lost after pingTime more.
	pingAfter = 3 * time.Second
	pingTime  = 3 * time.Second
	// An engine waits longer, because a client that sleeps comes back.
	clientPingAfter = 30 * time.Second
	clientPingTime  = 30 * time.Second
)

// NewServer returns a server of a handler over HTTP/2 without TLS. Its listener is a Unix socket.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:   h,
		Protocols: unencrypted(),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxRequests, SendPingTimeout: clientPingAfter, PingTimeout: clientPingTime},
	}
}

// Connect makes the one connection of a client over a pipe to an engine. Closing the connection closes the pipe.
func Connect(ctx context.Context, pipe net.Conn) (*http.ClientConn, error) {
	t := &http.Transport{
		Protocols:          unencrypted(),
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return join(pipe, true), nil },
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: frameSize, SendPingTimeout: pingAfter, PingTimeout: pingTime, StrictMaxConcurrentRequests: true,
		},
	}
	return t.NewClientConn(ctx, "http", "place:80")
}

func unencrypted() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// A Listener accepts connections whose writes are joined, see join.
type Listener struct{ net.Listener }

// Accept waits for the next connection.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return join(c, false), nil
}

// join returns a connection of HTTP/2 that writes the headers of a request or an answer together with what follows
// them. net/http writes them apart, though the body is there, and srun(1) holds the second of two small writes back
// for 40 ms: a quick job would take four times as long. It must be the side of the client or of the server.
func join(c net.Conn, client bool) net.Conn {
	j := &joined{Conn: c}
	if client {
		j.left = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") // precedes the frames (RFC 9113, 3.4)
	}
	return j
}

// A joined connection is written by one goroutine at a time, as net/http does.
type joined struct {
	net.Conn
	held []byte  // headers without a body
	head [9]byte // the present frame begins with these bytes (RFC 9113, 4.1)
	got  int     // how many bytes of head are written
	left int     // how many bytes of the frame's body are not written yet
}

// Types and flags of frames.
const (
	headersType = 0x1
	endStream   = 0x1
	endHeaders  = 0x4
)

func (j *joined) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(j.left, len(rest))
		j.left, rest = j.left-n, rest[n:]
		if j.left > 0 || len(rest) == 0 {
			break
		}
		if j.got == len(j.head) {
			j.got = 0
		}
		n = copy(j.head[j.got:], rest)
		j.got, rest = j.got+n, rest[n:]
		if j.got == len(j.head) {
			j.left = int(j.head[0])<<16 | int(j.head[1])<<8 | int(j.head[2])
		}
	}
	whole := j.got == len(j.head) && j.left == 0
	if whole && j.head[3] == headersType && j.head[4]&(endStream|endHeaders) == endHeaders {
		j.held = append(j.held, b...)
		return len(b), nil
	}
	if len(j.held) == 0 {
		return j.Conn.Write(b)
	}
	held := len(j.held)
	n, err := j.Conn.Write(append(j.held, b...))
	j.held = nil
	return max(0, n-held), err
}
