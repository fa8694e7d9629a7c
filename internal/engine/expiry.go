//go:build unix

package engine

import (
	"fmt"
	"time"

	"asyncrepl/pkgmgr"
)

// A session that no job has used for Config.SessionTTL is ended, unless processes that it started
// are still running. What was lost is said once, as after a crash, and a session that is opened
// under the same name has the same settings and environment.

// expiryPause is the longest time between two checks. A session whose last child has exited is
// found idle by the next.
const expiryPause = time.Minute

// askedPause is how soon a session is checked again that was asked something just then.
const askedPause = 100 * time.Millisecond

// An expired session is what remains of one that was ended because it was idle.
type expired struct {
	scope    Scope
	spec     SessionSpec
	packages *pkgmgr.Manager
	named    bool
	at       time.Time
	loss     *Loss // nil: it had no Python
}

// expireAfter checks for idle sessions after d, unless a check is due or sessions are kept forever.
// The caller holds mu.
func (e *Engine) expireAfter(d time.Duration) {
	if e.expiry == nil && !e.closed && e.config.SessionTTL > 0 {
		e.expiry = time.AfterFunc(min(d, expiryPause), e.expire) // owned by the engine; Close stops it
	}
}

// stopExpiry ends the checks for idle sessions.
func (e *Engine) stopExpiry() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.expiry != nil {
		e.expiry.Stop()
	}
}

// expire ends the sessions that have been idle too long, and checks again when the next can be. It
// looks for their processes without the lock, because that is a scan of /proc.
func (e *Engine) expire() {
	next := e.config.SessionTTL
	for _, s := range e.due(&next) {
		if s.Usage().Processes <= 1 && !e.expireNow(s) {
			next = min(next, askedPause)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sessions) > 0 {
		e.expireAfter(next)
	}
}

// due returns the sessions whose time is up, and lowers next to the time that another one has left.
func (e *Engine) due(next *time.Duration) (list []*session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expiry = nil
	for _, s := range e.sessions {
		if left := e.left(s); left > 0 {
			*next = min(*next, left)
		} else {
			list = append(list, s)
		}
	}
	return list
}

// left returns how long a session can still be idle. The caller holds mu.
func (e *Engine) left(s *session) time.Duration {
	return e.config.SessionTTL - time.Since(s.idleSince(s.State()))
}

// expireNow ends a session and keeps what must be known of it. It returns false if the session is
// in use after all.
func (e *Engine) expireNow(s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := s.Name()
	if e.closed || e.sessions[name] != s {
		return true
	}
	if e.left(s) > 0 {
		return false
	}
	loss, ok := s.DeleteIdle(fmt.Sprintf("was ended because it was idle for %v (REPL_SESSION_TTL)", e.config.SessionTTL))
	if !ok {
		return false
	}
	delete(e.sessions, name)
	for len(e.expired) >= max(1, e.config.MaxSessions) {
		oldest := ""
		for n, x := range e.expired {
			if oldest == "" || x.at.Before(e.expired[oldest].at) {
				oldest = n
			}
		}
		delete(e.expired, oldest)
	}
	e.expired[name] = &expired{scope: s.scope, spec: s.spec, packages: s.packages, named: s.named, at: time.Now(), loss: loss}
	return true
}
