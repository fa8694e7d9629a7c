//go:build unix

package process

import (
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	settleLimit = 50 * time.Millisecond
	settlePause = time.Millisecond
)

// Settle waits for the end of the leader and tells what became of what it left: who was ended by the hangup of its
// terminal, and who lives on. It waits, 50 ms at most, for those who have been sent a SIGHUP and may die of it.
func (h *Handle) Settle() (hungUp, left []Process) {
	<-h.done
	limit := time.Now().Add(h.owner.settle)
	for buried := 0; ; {
		es := h.members()
		decided := !slices.ContainsFunc(es, h.undecided)
		kin.mu.Lock()
		n := h.buried
		kin.mu.Unlock()
		if decided && n == buried || time.Now().After(limit) { // what has been reaped since may have children
			return h.HungUp(), living(es)
		}
		if n == buried {
			time.Sleep(settlePause)
		}
		buried = n
		kin.look()
	}
}

// HungUp are those who have been ended by the hangup since it was last asked. On a busy machine some end after Settle.
func (h *Handle) HungUp() (ps []Process) {
	kin.mu.Lock()
	defer kin.mu.Unlock()
	ps, h.hungUp = h.hungUp, nil
	return ps
}

// undecided tells whether e may still die of the hangup, which goes to the leader's session, or has died and is not
// buried yet.
func (h *Handle) undecided(e entry) bool {
	if e.ended() { // its parent may let it lie; we do not
		return e.Parent == os.Getpid()
	}
	if h.tty == nil || e.session != h.self.PID {
		return false
	}
	safe, _ := withstands(e.PID, syscall.SIGHUP)
	return !safe
}
