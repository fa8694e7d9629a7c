package httpserver

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSessions is how many sessions of the older era a tenant can have. Beyond it, the one that has
// been idle longest gives way.
const maxSessions = 1000

// A session is one of the older era. It is in the table from the moment its client initializes it
// until it ends.
type session struct {
	*mcp.ServerSession
	owner  Caller
	server *mcp.Server
	end    context.CancelFunc // ends the waits of its calls

	// Guarded by sessions.mu.
	calls    int           // requests in flight; streams do not count
	answered chan struct{} // closed when there are none any more; nil: there were none
	used     time.Time     // the last time that a request began or ended
}

// sessions are the sessions by their ids.
type sessions struct {
	most int // the most sessions that one tenant may have

	mu     sync.Mutex
	all    map[string]*session
	count  map[string]int // sessions by tenant
	ending sync.WaitGroup // the goroutines that wait for the ends of sessions
}

// serveSession serves a request of the older era: of a session, or one that begins a session.
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request, c *caller) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		s.beginSession(w, r, c)
		return
	}
	ended := func() {}
	found := s.sessions.find(id)
	switch {
	case found == nil:
		http.Error(w, "no such session: begin a new one with initialize", http.StatusNotFound)
		return
	case found.owner.Tenant != c.Tenant:
		http.Error(w, "this session is another tenant's", http.StatusForbidden)
		return
	case r.Method == http.MethodPost:
		ended = s.sessions.use(found)
	case r.Method == http.MethodDelete:
		// Otherwise the end of the session would wait for its calls and drop their answers.
		s.sessions.answer(found)
	}
	defer ended()
	s.older.ServeHTTP(w, with(r, found.server))
}

// beginSession serves a request of no session. There is one afterwards if the request initializes
// it.
func (s *Server) beginSession(w http.ResponseWriter, r *http.Request, c *caller) {
	ctx, end := context.WithCancel(s.waits)
	server := s.config.New(ctx, c.Caller)
	if server == nil {
		end()
		unavailable(w)
		return
	}
	var once sync.Once
	refused := errClosed
	server.AddReceivingMiddleware(s.handling, func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "initialize" {
				return next(ctx, method, req)
			}
			once.Do(func() { // the client does not know the id yet
				begun := &session{ServerSession: req.GetSession().(*mcp.ServerSession), owner: c.Caller, server: server, end: end}
				if refused = s.sessions.add(begun); refused != nil {
					end()
				}
			})
			if refused != nil {
				return nil, refused
			}
			return next(ctx, method, req)
		}
	})
	s.older.ServeHTTP(w, with(r, server))
	once.Do(end) // no session has begun
}

var (
	errTooManySessions = errors.New("too many sessions, each with a call in flight: try again when one of them is answered")
	errClosed          = errors.New("the request that begins the session was closed")
)

// add adds a session that has just begun. If its tenant has too many, the idlest one ends.
func (ss *sessions) add(begun *session) error {
	ss.mu.Lock()
	idlest, err := ss.makeRoom(begun.owner.Tenant)
	if err == nil {
		ss.insert(begun)
	}
	ss.mu.Unlock()
	if idlest != nil {
		idlest.Close()
	}
	return err
}

// makeRoom removes the idlest session of a tenant that can have no more.
func (ss *sessions) makeRoom(tenant string) (idlest *session, err error) {
	if ss.count[tenant] < ss.most {
		return nil, nil
	}
	for _, s := range ss.all {
		if s.owner.Tenant == tenant && s.calls == 0 && (idlest == nil || s.used.Before(idlest.used)) {
			idlest = s
		}
	}
	if idlest == nil {
		return nil, errTooManySessions
	}
	ss.remove(idlest)
	return idlest, nil
}

func (ss *sessions) insert(begun *session) {
	if ss.all == nil {
		ss.all, ss.count = make(map[string]*session), make(map[string]int)
	}
	begun.used = time.Now()
	ss.all[begun.ID()] = begun
	ss.count[begun.owner.Tenant]++
	ss.ending.Go(func() { // owned by close, which waits for it; ends with the session
		begun.Wait()
		ss.mu.Lock()
		defer ss.mu.Unlock()
		ss.remove(begun)
	})
}

// remove removes a session that has ended or must end, unless it is removed already. It ends the
// waits of its calls.
func (ss *sessions) remove(s *session) {
	s.end()
	if ss.all[s.ID()] == s {
		delete(ss.all, s.ID())
		ss.count[s.owner.Tenant]--
	}
}

// find returns a session, or nil.
func (ss *sessions) find(id string) *session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.all[id]
}

// use notes that a session has one more call, until ended is called.
func (ss *sessions) use(s *session) (ended func()) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s.calls++; s.calls == 1 {
		s.answered = make(chan struct{})
	}
	s.used = time.Now()
	return func() {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		if s.calls--; s.calls == 0 {
			close(s.answered)
		}
		s.used = time.Now()
	}
}

// answerTime bounds the wait for the answers of a session's calls before the session ends.
const answerTime = 2 * time.Second

// answer ends the waits of the calls of some sessions, and waits until they are answered.
func (ss *sessions) answer(some ...*session) {
	for _, s := range some {
		s.end()
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	for _, s := range some {
		ss.mu.Lock()
		calls, answered := s.calls, s.answered
		ss.mu.Unlock()
		if calls == 0 {
			continue
		}
		select {
		case <-answered:
		case <-late.C:
			return
		}
	}
}

// close ends all sessions.
func (ss *sessions) close() {
	ss.closeAll(func(Caller) bool { return true })
	ss.ending.Wait()
}

// closeAll ends the sessions of some callers.
func (ss *sessions) closeAll(of func(Caller) bool) {
	ss.mu.Lock()
	some := slices.DeleteFunc(slices.Collect(maps.Values(ss.all)), func(s *session) bool { return !of(s.owner) })
	ss.mu.Unlock()
	ss.answer(some...)
	for _, s := range some {
		s.Close()
	}
}
