//go:build unix

package process

import (
	"slices"
	"syscall"
	"time"
)

const (
	shutdownGrace = 150 * time.Millisecond
	shutdownLimit = 310 * time.Millisecond // and a look more, which takes a while where there are a thousand processes
)

// Shutdown ends everything that o ever started and refuses new starts. It returns when nothing is left, after 350 ms
// at the latest. What lives on then is the guard's, who ends last.
func (o *Owner) Shutdown() {
	if o.closed.Swap(true) {
		return
	}
	begin := time.Now()
	es := o.look()
	signalGroups(es, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT)
	for p := pause(0); time.Since(begin) < o.grace && !empty(o.look); p.sleep() {
	}
	for _, h := range o.handles() {
		h.slain.Store(true)
	}
	if left := slay(o.look, begin.Add(o.limit)); len(left) > 0 {
		o.config.Log.Warn("processes outlive the shutdown", "processes", left)
	}
	o.guard.close()
	o.null.Close()
	kin.leave()
}

// handles are those of o whose tree is not proven gone.
func (o *Owner) handles() []*Handle {
	kin.mu.Lock()
	defer kin.mu.Unlock()
	var hs []*Handle
	for h := range kin.handles {
		if h.owner == o {
			hs = append(hs, h)
		}
	}
	return hs
}

// look looks at everything that o answers for: the trees of its handles, and what can be from nobody else's.
func (o *Owner) look() []entry {
	kin.look()
	es := walk(0, kin.unclaimed(func(p *orphan) bool {
		return !slices.ContainsFunc(p.may, func(h *Handle) bool { return h.owner != o && !h.gone })
	}))
	for _, h := range o.handles() {
		es = append(es, h.members()...)
	}
	return es
}
