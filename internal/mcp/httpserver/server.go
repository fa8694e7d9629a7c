package httpserver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/semaphore"

	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
)

// Aliases, so that callers need import neither the SDK nor net/http.
type (
	MCPServer = mcp.Server   // serves one connection
	Handler   = http.Handler // answers requests
)

// A Config configures a server.
type Config struct {
	// New returns the MCP server of a new connection, or nil if there can be none. Its calls stop
	// waiting when ctx is done.
	New func(ctx context.Context, c Caller) *MCPServer
	// Find looks up a bearer token. If Find is nil, clients need no token.
	Find func(bearer string) (Caller, bool)
	// Files returns the handler of a caller's files, or nil if there can be none. It gets the paths
	// below /files/, and limits the bodies of requests itself; nil: no files.
	Files func(c Caller) Handler
	// Relay returns the tenant that serves the requests of a caller in another process, or nil if there
	// can be none. New and Files are not used then. If Relay is nil, all is served here.
	Relay func(c Caller) *relay.Tenant
	// Page is what browsers are served; nil: nothing.
	Page *Page
	// Counts returns what the server of one tenant has counted, if all its requests come from a relay.
	// It is nil otherwise.
	Counts func() metrics.Counts
	// Allow returns why a new connection may not be used; nil: all may.
	Allow func(net.Conn) error
	// TLS is how connections are secured; nil: they are not.
	TLS *tls.Config

	Origins   []string // other pages that may make requests, from [ParseOrigins]
	PublicURL string   // the URL of a proxy in front, from [ParseURL]; "" without a proxy
	Conns     int      // connections at once; 0: half of the limit of descriptors, at most 4,096

	// Ready returns why no job can be started now; nil: one always can.
	Ready func() error
	// Observe is called for each request that has ended; nil: requests are not reported. It must not
	// wait.
	Observe func(metrics.Request)
	Tools   []string // the names that Observe can see
	// Log is for what goes wrong; nil: nothing is logged.
	Log *slog.Logger
}

// A Server serves MCP over HTTP.
type Server struct {
	config   Config
	http     *http.Server
	newer    *mcp.StreamableHTTPHandler // serves the era without sessions
	older    *mcp.StreamableHTTPHandler // serves the era with sessions
	callers  callers
	bodies   *semaphore.Weighted // the bytes that the bodies of all requests in flight may have
	sessions sessions
	conns    atomic.Pointer[limited] // nil before Serve
	calls    atomic.Int64            // requests of the protocol in flight that are not streams
	revoking sync.WaitGroup          // the goroutines that have tokens revoked in other processes
	waits    context.Context         // done when calls must be answered at once
	leave    context.CancelFunc
}

// New returns a server that does not serve yet.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(metrics.Request) {}
	}
	s := &Server{config: c, bodies: semaphore.NewWeighted(allBodies), sessions: sessions{most: maxSessions}}
	s.waits, s.leave = context.WithCancel(context.Background())
	s.newer, s.older = eras()
	s.http = &http.Server{
		Handler:           s.bounded(s.exchanging(s.admitted(s.routes()))),
		TLSConfig:         c.TLS,
		ConnContext:       s.allow,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), // mostly about clients
	}
	return s
}

// routes returns the handler of all requests. Those for files don't go through the mux, which would
// redirect a path with ".." to another one.
func (s *Server) routes() http.Handler {
	messages, files := s.authenticated(s.identify, s.serveMCP), s.authenticated(s.identify, s.serveFiles)
	if s.config.Relay != nil {
		messages = s.authenticated(s.identify, s.serveRelayed)
		files = messages
	}
	mux := http.NewServeMux()
	mux.HandleFunc(mcpPath, messages)
	mux.HandleFunc(healthPath, s.serveHealth)
	if s.config.Counts != nil {
		mux.HandleFunc("GET "+relay.CountsPath, s.serveCounts)
		mux.HandleFunc("POST "+relay.RevokePath, s.serveRevoke)
	}
	if s.config.Page != nil {
		s.pageRoutes(mux)
	}
	if s.config.Files == nil && s.config.Relay == nil {
		return mux
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, filesPath) {
			files(w, r)
		} else {
			mux.ServeHTTP(w, r)
		}
	})
}

// mcpPath is the path of the protocol; filesPath begins the paths of files.
const (
	mcpPath    = "/mcp"
	filesPath  = "/files/"
	healthPath = "/healthz"
)

func (s *Server) serveFiles(w http.ResponseWriter, r *http.Request, c *caller) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	r = r.Clone(ctx)
	if s.listed(r) {
		r.Header.Del("Sec-Fetch-Site") // which says no more than that the page is from elsewhere
	}
	if h := s.config.Files(c.Caller); h != nil {
		http.StripPrefix(filesPath, h).ServeHTTP(w, r)
	} else {
		unavailable(w)
	}
}

// Serve serves the connections of l. It returns nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	limited := limit(l, s.config.Conns)
	s.conns.Store(limited)
	l = limited
	serve := s.http.Serve
	if s.config.TLS != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// Shutdown answers calls in flight at once with the current status, and closes all connections. What
// is not answered when ctx is done is cut off.
func (s *Server) Shutdown(ctx context.Context) {
	s.leave()
	if err := s.http.Shutdown(ctx); err != nil {
		s.http.Close()
	}
	s.sessions.close()
	s.revoking.Wait()
}

// serveMCP serves one request of either era.
func (s *Server) serveMCP(rw http.ResponseWriter, r *http.Request, c *caller) {
	room := claim{own: c.bodies, all: s.bodies}
	defer room.release()
	body, ok := readMessage(rw, r, &room)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodGet { // a stream, which does not end by itself
		defer context.AfterFunc(s.waits, cancel)()
	}
	waits, answer := ctx, cancel
	if r.Method == http.MethodPost {
		s.calls.Add(1)
		defer s.calls.Add(-1)
		// When the context of the request ends, the SDK can drop the answer.
		waits, answer = context.WithCancel(ctx)
		defer answer()
	}
	defer context.AfterFunc(c.ctx, answer)()
	x := exchangeOf(r)
	x.waits, x.drop, x.batch = waits, cancel, isBatch(body)
	w := x.keepAlive(rw)
	defer w.finish()
	if r.Method == http.MethodDelete {
		w.timer.Stop() // its answer is no stream
	}
	r = x.attach(r.WithContext(ctx), c.Tenant)
	if !isNewer(r) {
		s.serveSession(w, r, c)
	} else if server := s.serverOf(c); server != nil {
		s.newer.ServeHTTP(w, with(r, server))
	} else {
		unavailable(w)
	}
}
