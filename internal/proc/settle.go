//go:build unix

package proc

import (
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
	var es []entry
	for limit := time.Now().Add(settleLimit); ; kin.look() {
		es = h.members()
		if !slices.ContainsFunc(es, h.undecided) || time.Now().After(limit) {
			break
		}
		time.Sleep(settlePause)
	}
	kin.mu.Lock()
	defer kin.mu.Unlock()
	hungUp, h.hungUp = h.hungUp, nil
	return hungUp, living(es)
}

// undecided tells whether e may still die of the hangup, which goes to the leader's session.
func (h *Handle) undecided(e entry) bool {
	if h.tty == nil || e.session != h.self.PID || e.ended() {
		return false
	}
	safe, _ := withstands(e.PID, syscall.SIGHUP)
	return !safe
}
