package httpserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/metrics"
)

// An MCPServer serves one connection. Whoever makes one need not know whose type it is.
type MCPServer = mcp.Server

// A Config configures a server.
type Config struct {
	// New returns the MCP server of a new connection. Its calls stop waiting when ctx is done.
	New func(ctx context.Context, c Caller) *MCPServer
	// Observe is called for each request that has ended; nil: nobody wants to know. It must not wait.
	Observe func(metrics.Request)
	Tools   []string // the names that Observe can see
	// Log is for what goes wrong; nil: nothing is logged.
	Log *slog.Logger
}

// A Server serves MCP over HTTP.
type Server struct {
	config   Config
	http     *http.Server
	newer    *mcp.StreamableHTTPHandler // of the era without sessions
	older    *mcp.StreamableHTTPHandler // of the era with sessions
	callers  callers
	sessions sessions
	waits    context.Context // done when calls must be answered at once
	leave    context.CancelFunc
}

// New returns a server that does not serve yet.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{config: c}
	s.waits, s.leave = context.WithCancel(context.Background())
	s.newer, s.older = eras()
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.serveMCP)
	s.http = &http.Server{
		Handler:           s.observed(mux),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug), // mostly about clients
	}
	return s
}

// Serve serves the connections of l. It returns nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); err != http.ErrServerClosed {
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
}

// serveMCP serves one request of either era.
func (s *Server) serveMCP(rw http.ResponseWriter, r *http.Request) {
	if why := allowed(r); why != "" {
		http.Error(rw, why, http.StatusForbidden)
		return
	}
	c, ok := s.callers.enter(Caller{Tenant: defaultTenant})
	if !ok {
		tooMany(rw)
		return
	}
	defer s.callers.leave(c)
	observationOf(r).by(c.Caller, eraOf(r))
	if !readBody(rw, r) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if r.Method == http.MethodGet { // a stream, which has no end of its own
		defer context.AfterFunc(s.waits, cancel)()
	}
	w := keepAlive(rw)
	defer w.finish()
	r = r.WithContext(ctx)
	if isNewer(r) {
		s.newer.ServeHTTP(w, with(r, s.serverOf(c)))
	} else {
		s.serveSession(w, r, c)
	}
}
