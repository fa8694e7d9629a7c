package httpserver

import (
	"context"
	"net"
	"net/http"
)

// serveHealth says whether a job can be started, to anybody.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the state of the server can only be read", http.StatusMethodNotAllowed)
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

// metricsConns is how many connections metrics are served to at once.
const metricsConns = 16

// ServeMetrics serves metrics at /metrics to the connections of l, until Shutdown. If other machines
// can connect, it asks for a token that Config.Find knows, and speaks TLS if Config.TLS is set.
func (s *Server) ServeMetrics(l net.Listener, metrics http.Handler, local bool) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if why := s.foreign(r); why != "" {
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
		Handler:           mux,
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
