package httpserver

import (
	"context"
	"net"
	"net/http"
)

// serveHealth says whether a job can be started. It needs no token, but answers no foreign page.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the state of the server can only be read", http.StatusMethodNotAllowed)
		return
	}
	if why := s.whyForeign(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	if s.config.Ready != nil {
		if err := s.config.Ready(); err != nil {
			http.Error(w, "no job can be started: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n"))
}

// A Load is what a server has to do at one moment.
type Load struct {
	Connections int // those known to be a caller's
	Strangers   int // connections that are not
	Calls       int // requests of the protocol in flight that are not streams
	Sessions    int // MCP sessions, which only the older era has
}

// Load returns what the server has to do now.
func (s *Server) Load() Load {
	l := Load{Calls: int(s.calls.Load())}
	if conns := s.conns.Load(); conns != nil {
		conns.mu.Lock()
		l.Strangers = len(conns.strangers)
		conns.mu.Unlock()
		l.Connections = max(0, int(conns.open.Load())-l.Strangers)
	}
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	l.Sessions = len(s.sessions.all)
	return l
}

// metricsConns bounds the connections that metrics are served to. All of them stay strangers, of
// which there can be half as many.
const metricsConns = 32

// ServeMetrics serves metrics at /metrics to the connections of l, until Shutdown. If other machines
// can connect, it asks for a token that Config.Find knows, and speaks TLS if Config.TLS is set.
func (s *Server) ServeMetrics(l net.Listener, metrics http.Handler, local bool) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if why := s.whyForeign(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		if _, ok := s.identify(r); !local && !ok {
			unauthorized(w, r)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	server := &http.Server{
		Handler:           s.bounded(mux),
		TLSConfig:         s.config.TLS,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       bodyTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ErrorLog:          s.http.ErrorLog,
	}
	defer context.AfterFunc(s.waits, func() { server.Close() })()
	l = limit(l, metricsConns)
	serve := server.Serve
	if !local && s.config.TLS != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}
