//go:build unix

package engine

import (
	"fmt"
	"time"

	"asyncrepl/pkgmgr"
)

// The engine ends a session that no job has used for Config.SessionTTL, unless processes that it
// started are still running. A receipt reports the loss once, as after a crash, and a session that
// is opened under the same name has the same settings and environment.

// expiryPause is the longest time between two checks. No event announces that the last child of a
// session has exited: the next check finds the session idle.
const expiryPause = time.Minute

// askedPause is the time until the next check of a session that was in use during this one.
const askedPause = 100 * time.Millisecond

// An expired is the record of a session that was ended because it was idle.
type expired struct {
	scope    Scope
	spec     SessionSpec
	packages *pkgmgr.Manager
	named    bool
	at       time.Time
	loss     *Loss // nil: the session had no Python
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

// expire ends the sessions that have been idle too long, and sets the timer for the time when the
// next one can be. It scans /proc for their processes, so it does that without the lock.
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

// due returns the sessions that have no time left. It lowers next to the shortest time that another
// session has left.
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

// expireNow ends a session and keeps its settings and its loss. It returns false if the session is
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
