package httpserver

import (
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// A limited listener accepts no more than some connections at once. Others wait to be accepted, in
// the kernel, until one is closed.
type limited struct {
	net.Listener
	room   chan struct{} // holds one for each connection
	closed chan struct{}
	close  func() error
}

// limit returns a listener of at most n connections; 0: half of the descriptors that this process
// can have. The others are for jobs.
func limit(l net.Listener, n int) net.Listener {
	if n == 0 {
		n = 512
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
			n = int(max(1, min(r.Cur/2, 1<<20)))
		}
	}
	lim := &limited{Listener: l, room: make(chan struct{}, n), closed: make(chan struct{})}
	lim.close = sync.OnceValue(func() error {
		close(lim.closed)
		return l.Close()
	})
	return lim
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &conn{Conn: c, release: sync.OnceFunc(func() { <-l.room })}, nil
}

func (l *limited) Close() error { return l.close() }

// A conn makes room for another one when it is closed.
type conn struct {
	net.Conn
	release func()
}

func (c *conn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// NetConn returns the connection that the kernel knows, as that of package tls does.
func (c *conn) NetConn() net.Conn { return c.Conn }
