package httpserver

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/semaphore"
)

// A Caller identifies the client that makes a request.
type Caller struct {
	Tenant string // the tenant that owns the jobs the caller sees
	Token  string // a name of its token that is not the token; "" if there are no tokens
}

// defaultTenant is everybody's tenant if there are no tokens.
const defaultTenant = "default"

// A caller is a Caller that has made requests.
type caller struct {
	Caller
	ctx context.Context // done when its token is revoked
	end context.CancelFunc

	bodies *semaphore.Weighted // the bytes that the bodies of its requests in flight may have
	tabs   *semaphore.Weighted // its WebSockets of the page without a login

	// Guarded by callers.mu.
	inFlight int
	server   *mcp.Server // serves all requests of the newer era; nil before the first
}

// callers are the callers by their tokens. The zero value has none.
type callers struct {
	mu      sync.Mutex
	all     map[Caller]*caller
	revoked int               // how many tokens were revoked
	logins  map[string]*login // browsers, by their cookies
}

var (
	errRevoked = errors.New("a token was revoked meanwhile")
	errTooMany = errors.New("the caller has as many requests in flight as it can have")
)

// revocations returns how many tokens were revoked.
func (cs *callers) revocations() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.revoked
}

// enter begins a request of a caller whose token was found after revoked revocations; leave ends it.
// If another token was revoked since then, the error is errRevoked, and the token must be looked up
// again: the request would otherwise outlive a token that was revoked between both.
func (cs *callers) enter(who Caller, revoked int) (*caller, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if revoked != cs.revoked {
		return nil, errRevoked
	}
	c := cs.all[who]
	if c == nil {
		if cs.all == nil {
			cs.all = make(map[Caller]*caller)
		}
		c = &caller{Caller: who, bodies: semaphore.NewWeighted(callerBodies), tabs: semaphore.NewWeighted(maxTabs)}
		c.ctx, c.end = context.WithCancel(context.Background())
		cs.all[who] = c
	}
	if c.inFlight >= maxInFlight {
		return nil, errTooMany
	}
	c.inFlight++
	return c, nil
}

func (cs *callers) leave(c *caller) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.inFlight--
}

// serverOf returns the server of all requests of the newer era that c makes, or nil if it can have
// none now.
func (s *Server) serverOf(c *caller) *mcp.Server {
	s.callers.mu.Lock()
	defer s.callers.mu.Unlock()
	if c.server == nil {
		if c.server = s.config.New(s.waits, c.Caller); c.server != nil {
			c.server.AddReceivingMiddleware(s.handling)
		}
	}
	return c.server
}

func unavailable(w http.ResponseWriter) {
	http.Error(w, "nothing can be done for this tenant now: the log of the server says why", http.StatusServiceUnavailable)
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests in flight with this token: wait until some are answered", http.StatusTooManyRequests)
}
