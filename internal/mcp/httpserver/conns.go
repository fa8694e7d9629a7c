package httpserver

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConns bounds the connections if the limit of descriptors does not: Go raises that to its hard
	// limit, which can be a million, and a connection can take 140 KiB.
	maxConns = 4096
	// maxStrangers bounds the connections that are not known to be a caller's.
	maxStrangers = 256
	// patience is how long a stranger is left alone although others wait for its place. Most callers
	// send their token within milliseconds, but many can connect at once.
	patience = time.Second
)

// A limited listener accepts no more than some connections at once. Others wait to be accepted, in
// the kernel, until one is closed.
//
// A connection is a stranger until it is known to be a caller's, by its user or by a token. Strangers
// could take the place of all callers. So there are fewer of them than there can be connections, and
// the one that has been connected longest gives way to the next.
type limited struct {
	net.Listener
	room   chan struct{} // holds one for each connection
	closed chan struct{}
	close  func() error
	most   int          // strangers at once
	open   atomic.Int64 // connections that were accepted and are not closed

	mu        sync.Mutex
	strangers []*conn       // the one that has been connected longest first
	fewer     chan struct{} // closed and replaced when there is one stranger less
}

// limit returns a listener of at most n connections; 0: as many as the limit of descriptors allows.
func limit(l net.Listener, n int) *limited {
	if n == 0 {
		n = 512
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
			n = connsWith(r.Cur)
		}
	}
	lim := &limited{
		Listener: l, room: make(chan struct{}, n), closed: make(chan struct{}),
		most: min(maxStrangers, max(1, n/2)), fewer: make(chan struct{}),
	}
	lim.close = sync.OnceValue(func() error {
		close(lim.closed)
		return l.Close()
	})
	return lim
}

// connsWith returns how many connections there can be if this process can have so many descriptors.
// Half of them are for jobs.
func connsWith(descriptors uint64) int { return int(max(1, min(descriptors/2, maxConns))) }

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	c := &conn{Conn: accepted, in: l, since: time.Now(), leave: sync.OnceFunc(func() {
		l.open.Add(-1)
		<-l.room
	})}
	if !l.enter(c) {
		accepted.Close()
		<-l.room
		return nil, net.ErrClosed
	}
	l.open.Add(1)
	return c, nil
}

// enter adds a stranger. If there are too many, it closes the oldest one, once that has had its time.
// It reports false if the listener was closed meanwhile.
func (l *limited) enter(c *conn) bool {
	for {
		l.mu.Lock()
		if len(l.strangers) < l.most {
			l.strangers = append(l.strangers, c)
			l.mu.Unlock()
			return true
		}
		oldest, fewer := l.strangers[0], l.fewer
		l.mu.Unlock()
		wait := time.Until(oldest.since.Add(patience))
		if wait <= 0 {
			oldest.Close()
			continue
		}
		late := time.NewTimer(wait)
		select {
		case <-fewer:
		case <-late.C:
		case <-l.closed:
		}
		late.Stop()
		select {
		case <-l.closed:
			return false
		default:
		}
	}
}

func (l *limited) Close() error { return l.close() }

// A conn makes room for another one when it is closed.
type conn struct {
	net.Conn
	in    *limited
	since time.Time // the time of Accept
	leave func()
}

// known notes that the connection is a caller's.
func (c *conn) known() {
	l := c.in
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.strangers, c); i >= 0 {
		l.strangers = slices.Delete(l.strangers, i, i+1)
		close(l.fewer)
		l.fewer = make(chan struct{})
	}
}

func (c *conn) Close() error {
	defer c.leave()
	defer c.known() // or else it stays a stranger
	return c.Conn.Close()
}

// NetConn returns the connection that the kernel knows, as the method of tls.Conn does:
// https://pkg.go.dev/crypto/tls#Conn.NetConn.
func (c *conn) NetConn() net.Conn { return c.Conn }

// connOf returns the conn that a connection of the server is, or is secured by TLS.
func connOf(c net.Conn) *conn {
	for {
		if own, ok := c.(*conn); ok {
			return own
		}
		c = c.(interface{ NetConn() net.Conn }).NetConn()
	}
}
