//go:build unix

package engine

import (
	"slices"
	"time"

	"asyncrepl/jobs"
)

// A tenant leaves when no token is its own any more. Its jobs continue, and so do its sessions, which
// end when they have been idle for Config.SessionTTL. When it has had neither for as long, its engine
// ends, and with it what its jobs have left running. A tenant that comes back before finds its jobs.

// Keep says which tenants can be asked for from now on. The others leave, and those of them that had
// left before and are named come back.
func (t *Tenants) Keep(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.leavers
	t.leavers = make(map[string]time.Time)
	for name := range t.engines {
		if slices.Contains(names, name) {
			continue
		}
		busy, left := before[name]
		if !left {
			busy = time.Now()
		}
		t.leavers[name] = busy
	}
	t.checkLeaversAfter(t.config.SessionTTL)
}

// checkLeaversAfter checks after d whether tenants that have left can end, unless a check is due or
// none has left. Without a SessionTTL they stay. The caller holds mu.
func (t *Tenants) checkLeaversAfter(d time.Duration) {
	if t.check == nil && len(t.leavers) > 0 && !t.closed && t.config.SessionTTL > 0 {
		t.check = time.AfterFunc(min(d, expiryPause), t.endLeavers) // owned by the tenants; Close stops it
	}
}

// endLeavers ends the engines of tenants that left long ago. It holds mu meanwhile, so that no tenant
// comes back to an engine that is ending; one without jobs ends in an instant.
func (t *Tenants) endLeavers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check = nil
	if t.closed {
		return
	}
	next := t.config.SessionTTL
	for name, busy := range t.leavers {
		e := t.engines[name]
		totals := e.jobs.Totals()
		if len(totals.Now) > 0 || len(e.all()) > 0 {
			t.leavers[name] = time.Now()
			continue
		}
		if left := t.config.SessionTTL - time.Since(busy); left > 0 {
			next = min(next, left)
			continue
		}
		e.Close()
		t.past = sum(t.past, e.jobs.Totals())
		delete(t.engines, name)
		delete(t.leavers, name)
		e.config.Log.Info("a tenant without a token has ended", "tenant", name)
	}
	t.checkLeaversAfter(next)
}

// sum adds the totals of one to those of all, which it changes.
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
