//go:build unix

package engine

import (
	"slices"
	"time"

	"asyncrepl/jobs"
)

// A tenant leaves when its last token is removed. Its jobs continue, and so do its sessions, which
// end when they have been idle for Config.SessionTTL. When the tenant has had no job and no session
// for that time, its engine ends, and with it the processes that its jobs have left running. A
// tenant that comes back before that finds its jobs.

// Keep names the tenants that can be asked for from now on. A tenant that is not named starts to
// leave. One that was leaving and is named again stays.
func (t *Tenants) Keep(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.leaving
	t.leaving = make(map[string]time.Time)
	for name := range t.engines {
		if slices.Contains(names, name) {
			continue
		}
		busy, left := before[name]
		if !left {
			busy = time.Now()
		}
		t.leaving[name] = busy
	}
	t.checkLeavingAfter(t.config.SessionTTL)
}

// checkLeavingAfter checks after d whether tenants that have left can end, unless a check is due or
// none has left. Without a SessionTTL they stay. The caller holds mu.
func (t *Tenants) checkLeavingAfter(d time.Duration) {
	if t.check == nil && len(t.leaving) > 0 && !t.closed && t.config.SessionTTL > 0 {
		t.check = time.AfterFunc(min(d, expiryPause), t.endLeaving) // owned by the tenants; Close stops it
	}
}

// endLeaving ends the engines of tenants that left long ago.
func (t *Tenants) endLeaving() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check = nil
	if t.closed {
		return
	}
	next := t.config.SessionTTL
	for name, busy := range t.leaving {
		e := t.engines[name]
		totals := e.jobs.Totals()
		if len(totals.Now) > 0 || len(e.all()) > 0 {
			t.leaving[name] = time.Now()
			continue
		}
		if left := t.config.SessionTTL - time.Since(busy); left > 0 {
			next = min(next, left)
			continue
		}
		t.past = sum(t.past, totals) // without a job the totals are final
		delete(t.engines, name)
		delete(t.leaving, name)
		t.end(name, e)
	}
	t.checkLeavingAfter(next)
}

// end closes the engine of a tenant. That can take seconds if programs are still running, so it
// happens without the lock, which every request needs. Until then the tenant is refused. The
// caller holds mu.
func (t *Tenants) end(name string, e *Engine) {
	ended := make(chan struct{})
	t.ending[name] = ended
	go func() { // owned by the tenants and joined by Close; ends when the engine is closed
		e.Close()
		e.config.Log.Info("a tenant without a token has ended", "tenant", name)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.ending, name)
		close(ended)
	}()
}

// sum returns all with the totals of one added. It changes the maps of all.
func sum(all, one jobs.Totals) jobs.Totals {
	for status, n := range one.Now {
		all.Now[status] += n
	}
	for status, n := range one.Ended {
		all.Ended[status] += n
	}
	all.Output += one.Output
	return all
}
