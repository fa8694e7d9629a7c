//go:build unix

package keeper

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/mcp/server"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/process/cgroup"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// replaceTime bounds how long a new client waits for the end of a connection that its other side
// has closed. A client that was killed and started again is there before the engine knows.
const replaceTime = 1500 * time.Millisecond

// serve serves a connection from its hello to its end. first reports whether it is the connection
// that the engine was started with.
func (k *Keeper) serve(c *sockets.Conn, first bool) {
	defer func() {
		if k.last.Load() != c {
			c.Close()
		}
	}()
	h, err := c.Hear(k.Version)
	if err == nil {
		defer h.Stderr.Close()
		switch h.Role {
		case sockets.Client:
			k.serveClient(c, h)
			return
		case sockets.Person:
			k.servePerson(c, h)
			return
		case sockets.Page:
			k.servePage(c)
			return
		}
		c.Refuse("this version knows no role " + string(h.Role))
	}
	if first { // no client will come
		k.in(func(s *state) { s.how, s.left, s.ends = jobs.ClientGone, time.Now(), time.Now() })
	}
}

// serveClient serves a client, unless another one is connected.
func (k *Keeper) serveClient(c *sockets.Conn, h sockets.Hello) {
	if k.Lone != "" {
		c.Refuse(k.Lone)
		return
	}
	in := &stream{Conn: c, gone: make(chan struct{})}
	in.left = func(goodbye bool) { k.in(func(s *state) { k.depart(s, in, goodbye) }) }
	if front, err := procfs.Inspect(c.Peer()); err == nil {
		cgroup.Include(front.Process)
	}
	var (
		scope   engine.Scope
		notices *report.Notices
		number  int
		w       sockets.Welcome
	)
	late := time.NewTimer(replaceTime)
	defer late.Stop()
	for {
		var other *stream
		if !k.in(func(s *state) {
			if other = s.client; other != nil {
				return
			}
			s.client, s.how, s.left, s.ends, s.trimmed = in, "", time.Time{}, time.Time{}, false
			s.clients++
			unix.Umask(h.Umask)
			if h.Env == nil {
				h.Env = k.Env
			} else if k.Environ != nil {
				h.Env = k.Environ(h.Env)
			}
			k.Trail.Attach(h.Stderr, h.LogLevel)
			s.scope = k.Engine.Scope(engine.Client{Env: h.Env, Grace: h.Grace, Timeout: h.Timeout, Log: k.Log})
			s.notices = s.notices.Next()
			scope, number, notices, w = s.scope, s.clients, s.notices, k.welcome(s)
		}) {
			return // the engine ends, and the front finds another one
		}
		if other == nil {
			break
		}
		busy := !hungUp(other.Conn)
		if !busy {
			select {
			case <-other.gone:
			case <-late.C:
				busy = true
			}
		}
		if busy {
			c.Busy()
			return
		}
	}
	notices.Earlier(k.takeUnsaid())
	if c.Welcome(w) == nil {
		mcp := server.Config{
			Backend: k.Backend(), Places: k.Places, Version: k.Version, Toolsets: h.Toolsets, MaxChars: h.MaxChars, NoImages: h.NoImages, Page: k.Page,
			Notices: notices, Resumes: number - 1, Keep: server.KeepLonger, CanKeep: k.canKeep, Found: k.found, Older: h.Older, Elsewhere: k.elsewhere(),
		}
		k.talk(in, mcp, scope)
	}
	in.left(in.goodbye.Load())
	if in.goodbye.Load() && !k.in(func(*state) {}) { // the engine ends with its client
		k.last.Store(c)
	}
}

// depart notes that a client has left.
func (k *Keeper) depart(s *state, c *stream, goodbye bool) {
	if s.client != c {
		return // it was noted at the client's last line
	}
	linger := k.Linger
	if s.how = jobs.ClientGone; goodbye {
		linger, s.how = k.LingerGoodbye, jobs.Shutdown
	}
	if k.doors == nil {
		linger = 0 // nothing could find the engine
	} else {
		k.doors.Touch()
	}
	s.client = nil
	close(c.gone)
	k.Trail.Detach()
	s.left, s.unread = time.Now(), k.ended()
	s.ends = s.left.Add(linger)
	if left := s.left; linger > 0 {
		k.conns.Go(func() { k.giveWay(left) }) // joined by Wait; ends with the engine, or when a client comes
	}
}

// servePerson serves a command.
func (k *Keeper) servePerson(c *sockets.Conn, h sockets.Hello) {
	var scope engine.Scope
	var w sockets.Welcome
	if !k.in(func(s *state) { scope, w = s.scope, k.welcome(s) }) || c.Welcome(w) != nil {
		return
	}
	scope.Log = nil // the client's log is not about commands
	if h.Grace > 0 {
		scope.Grace = h.Grace
	}
	k.talk(&stream{Conn: c, left: func(bool) {}}, server.Config{
		Backend: k.Backend(), Places: k.Places, Version: k.Version, Toolsets: h.Toolsets, MaxChars: h.MaxChars, NoImages: h.NoImages, By: jobs.Person,
	}, scope)
}

const (
	requestTime = 10 * time.Second // bounds the headers of a request of a page
	idleTime    = 2 * time.Minute  // bounds how long a page keeps a connection for its next request
)

// servePage serves a page, which makes requests over HTTP. What a page does is done by a person.
func (k *Keeper) servePage(c *sockets.Conn) {
	if k.NoPage {
		c.Refuse("it is started without a page (REPL_PAGE=off)")
		return
	}
	var w sockets.Welcome
	if !k.in(func(s *state) { w = k.welcome(s) }) || c.Welcome(w) != nil {
		return
	}
	defer context.AfterFunc(k.cut, func() { c.Close() })()
	server := http.Server{
		Handler: k.page(), ReadHeaderTimeout: requestTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(k.Log.Handler(), slog.LevelDebug), // mostly about pages
	}
	server.Serve(&lone{Conn: c, closed: make(chan struct{})}) // returns an error when the connection has ended
}

// A lone is a listener that accepts one connection, itself, and ends with it.
type lone struct {
	net.Conn
	accepted bool
	once     sync.Once
	closed   chan struct{}
}

func (l *lone) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *lone) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Conn.Close()
}

func (l *lone) Addr() net.Addr { return l.LocalAddr() }

// talk speaks MCP with the other side of a connection until that ends.
func (k *Keeper) talk(in *stream, c server.Config, scope engine.Scope) {
	ctx, cut := context.WithCancel(k.cut)
	defer cut()
	waits, leave := context.WithCancel(context.Background())
	defer leave()
	in.cut, in.hurry = cut, leave
	mcp := server.New(waits, c, scope)
	transport := &stdio.Transport{Stream: in, Ordered: true, Cut: ctx, Divert: in.divert, Leave: leave, Log: scope.Log}
	session, err := mcp.Connect(context.Background(), transport, nil)
	if err == nil {
		session.Wait()
	}
}

// hungUp reports whether the other side of a connection has closed it.
func hungUp(c *sockets.Conn) bool {
	hung := true
	descriptor.Use(c, func(fd int) error { // an error: it is closed
		fds := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(fds, 0)
		hung = fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		return err
	})
	return hung
}

// A stream is the connection of a client or command.
type stream struct {
	*sockets.Conn
	cut   func()             // makes calls be answered at once; the answers are dropped if input has ended
	hurry func()             // makes calls be answered at once
	left  func(goodbye bool) // notes at once how a client has left: calls that can't be cut short must not keep the next one out

	gone    chan struct{} // closed when the next client can be connected
	goodbye atomic.Bool   // the other side has said that it leaves
	ended   bool          // the next Read ends the input
}

// Close closes the connection, except after a goodbye: serve closes it then.
func (s *stream) Close() error {
	if s.goodbye.Load() {
		return nil
	}
	return s.Conn.Close()
}

// Read ends at a goodbye. If the connection ends without one, the other side is lost.
func (s *stream) Read(p []byte) (int, error) {
	if s.ended {
		return 0, io.EOF
	}
	n, err := s.Conn.Read(p)
	if err != nil && !s.goodbye.Load() {
		s.cut()
		s.left(false)
	}
	return n, err
}

// divert takes a goodbye. At a signal input does not end with it: that would mean that no client
// reads the answers.
func (s *stream) divert(m jsonrpc.Message) bool {
	r, ok := m.(*jsonrpc.Request)
	if !ok || r.Method != sockets.GoodbyeMethod {
		return false
	}
	s.goodbye.Store(true)
	if r.Params == nil {
		s.ended = true
		go s.readOn() // ends with the connection, which serve closes, or with the process
	} else {
		s.cut()
		s.left(true)
	}
	return true
}

// readOn waits, while calls are answered after a goodbye, for the goodbye that cuts this short, or
// for the end of the other side. One that only shuts its side still reads.
func (s *stream) readOn() {
	if n, _ := s.Conn.Read(make([]byte, 1)); n > 0 {
		s.hurry()
	} else if hungUp(s.Conn) {
		s.cut()
	}
}
