//go:build unix

package process

import (
	"errors"
	"os"
	"slices"
	"time"
)

// Usage is what processes use. A zero is what the system does not tell.
type Usage struct {
	CPU       time.Duration // with that of their children that have ended and been waited for
	Memory    int64         // bytes resident; what several share counts for each
	Processes int
}

// Usage returns what the tree of h uses. The error is ErrGone once the leader has been reaped, and
// errors.ErrUnsupported if the system does not say.
func (h *Handle) Usage() (Usage, error) {
	kin.mu.Lock()
	gone := h.gone
	kin.mu.Unlock()
	if gone {
		return Usage{}, ErrGone
	}
	u := sum(h.members())
	if u.Memory == 0 {
		return u, errors.ErrUnsupported
	}
	return u, nil
}

// Census is how an Owner stands.
type Census struct {
	Adopts  bool  // orphans of our descendants come to us
	Guard   int   // the number of the guard; 0 before the first start, and while it is dead
	Started bool  // something has been started
	Self    int64 // memory of this process: bytes resident
	Trees   Usage // of all that has grown from what was started, by any Owner, without guards
	Orphans []Process
}

// Census counts. Orphans are those that came to us and of which it can't be told whose they are.
func (o *Owner) Census() Census {
	c := Census{Guard: o.guard.pid()}
	own, _ := inspect(os.Getpid())
	c.Self = own.memory
	kin.look()
	kin.mu.Lock()
	c.Adopts, c.Started = kin.adopts, kin.count > 0
	var roots []Process
	for h := range kin.handles {
		if !h.gone {
			roots = append(roots, h.self)
		}
	}
	for _, orphan := range kin.orphans {
		if orphan.ended() {
			continue
		}
		roots = append(roots, orphan.Process)
		if orphan.of == nil {
			c.Orphans = append(c.Orphans, orphan.Process)
		}
	}
	kin.mu.Unlock()
	slices.SortFunc(c.Orphans, func(a, b Process) int { return a.PID - b.PID })
	c.Trees = sum(walk(0, roots))
	return c
}

// sum is what the living among es use.
func sum(es []entry) (u Usage) {
	for _, e := range es {
		if e.ended() {
			continue
		}
		u.Processes++
		u.CPU += e.cpu
		u.Memory += e.memory
	}
	return u
}
