//go:build linux

package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"asyncrepl/internal/sandbox"
)

const (
	// mostConnections bounds the clients that are connected at a time.
	mostConnections = 1000
	// mostHeader bounds a request before its body, in bytes, and headerLimit the time until that has arrived.
	mostHeader  = 32 << 10
	headerLimit = 30 * time.Second
	// idleLimit bounds the time between two requests of a connection.
	idleLimit = time.Minute
	// reachLimit bounds the time for resolving a name and connecting to one of its addresses.
	reachLimit = 30 * time.Second
	// noteLimit bounds a call of Config.Refused.
	noteLimit = 200 * time.Millisecond
	// halfLimit bounds how long a tunnel stays after one direction has ended. A server that ignores the end
	// of its client would hold the tunnel forever.
	halfLimit = time.Hour
)

// A Config says what a proxy reaches. Hosts, Setting, Refused and Log are required.
type Config struct {
	Hosts   []sandbox.Host
	Setting string // the name of the setting that Hosts is from, for the answers to refused requests
	Log     *slog.Logger

	// Refused is called before a refusal is answered, so the client's connection is open meanwhile. The
	// client waits until Refused returns, as it must when the context ends. Calls overlap.
	Refused func(context.Context, Refusal)

	// Resolve and Dial are replaced by tests. If they are nil, the machine resolves and dials.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error)

	header, half time.Duration // replace headerLimit and halfLimit in tests
}

// A Refusal is a request for a host that Config.Hosts does not allow.
type Refusal struct {
	Method string // CONNECT or HTTP
	Host   string // a name, or the address to which an allowed name leads; printable
	Port   int
	Source int // the client's port
}

// A Proxy serves the clients of one sandbox.
type Proxy struct {
	config   Config
	server   http.Server
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	clients  atomic.Int64   // how many clients are connected
	running  sync.WaitGroup // the goroutine that accepts clients, and their connections
}

// Start accepts clients at l until l fails or the proxy is closed, which closes l. If l fails, the clients that
// are connected stay.
func Start(c Config, l net.Listener) *Proxy {
	if c.Resolve == nil {
		c.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			// A dot at the end keeps the search domains of the machine out: a.example must not be
			// a.example.corp.example. A name of one label can be meant for them, or for /etc/hosts.
			if strings.Contains(name, ".") {
				name += "."
			}
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
			// Not DialTCP: it takes a port before it connects, so targets would share 28,000 ports.
			c, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
			if err != nil {
				return nil, err
			}
			return c.(*net.TCPConn), nil
		}
	}
	c.header, c.half = cmp.Or(c.header, headerLimit), cmp.Or(c.half, halfLimit)
	p := &Proxy{config: c, listener: l}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.server = http.Server{
		Handler:           http.HandlerFunc(p.handle),
		MaxHeaderBytes:    mostHeader,
		ReadHeaderTimeout: c.header,
		IdleTimeout:       idleLimit,
		BaseContext:       func(net.Listener) context.Context { return p.ctx },
		ConnState:         p.changed,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), // about clients
	}
	p.running.Go(func() { p.server.Serve(l) }) // joined by Close; ends when l fails, or with Close
	return p
}

// Close ends all connections and waits for their goroutines.
func (p *Proxy) Close() {
	wake(p.listener)
	p.cancel()
	p.server.Close()
	p.running.Wait()
}

// wake ends an accept that blocks its thread. The process that made the listener shares its flags, so it
// can make it blocking, and closing it would wait for that accept.
func wake(l net.Listener) {
	if l, ok := l.(syscall.Conn); ok {
		if raw, err := l.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
		}
	}
}

// changed counts the connections of clients. That of a tunnel is counted until the tunnel ends.
func (p *Proxy) changed(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		p.running.Add(1) // the accepting is not done yet
		full := p.clients.Add(1) > mostConnections
		client, ok := c.(*net.TCPConn) // other kinds have no ports, by which processes are found
		if ok {
			client.SetLinger(-1) // a listener leaves its options to connections, and this one can make Close wait
		}
		if full {
			(&failure{http.StatusServiceUnavailable, "more than " + strconv.Itoa(mostConnections) + " connections are open"}).answer(c)
		}
		// After the context has ended, the server closes the connections that it knows. This one can be later.
		if full || !ok || p.ctx.Err() != nil {
			c.Close()
		}
	case http.StateClosed:
		p.left()
	}
}

// left is called when the connection of a client has ended.
func (p *Proxy) left() {
	p.clients.Add(-1)
	p.running.Done()
}

func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	source := 0
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		source = int(a.Port())
	}
	if r.Method == http.MethodConnect {
		p.connect(w, r, source)
	} else if f := p.forward(w, r, source); f != nil {
		http.Error(w, f.line(), f.status)
	}
}
