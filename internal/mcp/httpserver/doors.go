package httpserver

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

// refusedKey is the key of a connection's context for the error with which Config.Allow refused it.
type refusedKey struct{}

// connKey is the key of a connection's context for its conn, if callers must show tokens.
type connKey struct{}

// allow asks once a connection whether it may be used. Its requests are answered with the reason.
func (s *Server) allow(ctx context.Context, c net.Conn) context.Context {
	if s.config.Allow != nil {
		if err := s.config.Allow(c); err != nil {
			s.config.Log.Info("connection refused", "error", err)
			return context.WithValue(ctx, refusedKey{}, err)
		}
	}
	if s.config.Find == nil {
		connOf(c).known()
		return ctx
	}
	return context.WithValue(ctx, connKey{}, connOf(c))
}

// admitted returns a handler for the requests of connections that may be used. It stops the others,
// and closes them: each that stays takes the place of one that may be used.
func (s *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			// If it also gave a length, a proxy before this server may see another end of the request, and
			// let through as a second request what it took for the body of the first.
			w.Header().Set("Connection", "close")
		}
		if err, refused := r.Context().Value(refusedKey{}).(error); refused {
			w.Header().Set("Connection", "close")
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authenticated returns a handler for the requests of callers that are known and have room for one
// more. It stops the others. The handler ends a request if its caller's token is revoked.
func (s *Server) authenticated(identify func(*http.Request) (Caller, bool), next func(http.ResponseWriter, *http.Request, *caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if why := s.whyForeign(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		if s.answerPage(w, r) {
			return
		}
		var c *caller
		for {
			revoked := s.callers.revocations()
			who, ok := identify(r)
			if !ok {
				unauthorized(w, r)
				return
			}
			var err error
			if c, err = s.callers.enter(who, revoked); err == nil {
				break
			} else if err == errTooMany {
				tooMany(w)
				return
			}
		}
		defer s.callers.leave(c)
		if conn, ok := r.Context().Value(connKey{}).(*conn); ok {
			conn.known()
		}
		// From here on, each write sets its own deadline.
		http.NewResponseController(w).SetWriteDeadline(time.Time{})
		exchangeOf(r).by(c.Caller, eraOf(r))
		next(w, r, c)
	}
}

// identify returns the caller of a request, and reports whether it is known.
func (s *Server) identify(r *http.Request) (Caller, bool) {
	if s.config.Find == nil {
		return Caller{Tenant: defaultTenant}, true
	}
	bearer, ok := bearerOf(r)
	if !ok {
		return Caller{}, false
	}
	return s.config.Find(bearer)
}

// bearerOf returns the bearer token of a request, which is in one header.
func bearerOf(r *http.Request) (bearer string, ok bool) {
	all := r.Header["Authorization"]
	if len(all) != 1 {
		return "", false
	}
	scheme, bearer, ok := strings.Cut(all[0], " ")
	return strings.TrimLeft(bearer, " "), ok && strings.EqualFold(scheme, "Bearer")
}

func unauthorized(w http.ResponseWriter, r *http.Request) {
	if _, ok := bearerOf(r); ok {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "this token is not known: ask whoever runs the server for one", http.StatusUnauthorized)
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "a token is needed: send it as Authorization: Bearer TOKEN", http.StatusUnauthorized)
}

// Revoke ends the requests, streams, sessions and logins of a token, given by its name. Calls in flight are
// answered at once with the current status. Config.Find must not find it any more.
func (s *Server) Revoke(token string) {
	for _, who := range s.callers.revoke(token) {
		s.revokeRelayed(who)
	}
	s.sessions.closeAll(func(of Caller) bool { return of.Token == token })
}

// revoke ends the requests and logins of a token, and returns the callers that have made requests.
func (cs *callers) revoke(token string) (had []Caller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.revoked++
	for who, c := range cs.all {
		if who.Token == token {
			c.end()
			delete(cs.all, who)
			had = append(had, who)
		}
	}
	for _, l := range cs.logins {
		if l.Token == token {
			l.end()
		}
	}
	return had
}
