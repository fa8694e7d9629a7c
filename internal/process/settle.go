//go:build unix

package process

import (
	"cmp"
	"os"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/procfs"
)

const (
	settleLimit = 50 * time.Millisecond
	settlePause = time.Millisecond
)

// Settle waits for the end of the leader and returns what became of the processes that it left:
// those that the hangup of its terminal ended, and those that live on. It waits, 50 ms at most, for
// those that have been sent a SIGHUP and may die of it. If the tree can't be checked for 2 s, it
// returns an error and no processes that live on.
func (h *Handle) Settle() (hungUp, left []procfs.Process, err error) {
	<-h.done
	begin := time.Now()
	scanErr := h.scanErr
	for reaped := 0; ; {
		es, err := h.members()
		err = cmp.Or(scanErr, err)
		decided := !slices.ContainsFunc(es, h.undecided)
		reaper.mu.Lock()
		n := h.reapedOrphans
		reaper.mu.Unlock()
		switch {
		case err != nil && time.Since(begin) > checkLimit:
			return h.HungUp(), nil, unchecked(err)
		case err != nil:
		case decided && n == reaped || time.Since(begin) > h.owner.settle: // what was reaped since may have children
			return h.HungUp(), living(es), nil
		}
		if n == reaped {
			time.Sleep(settlePause)
		}
		reaped = n
		scanErr = reaper.scan()
	}
}

// HungUp returns the processes that the hangup has ended since the last call. On a busy machine
// some end after Settle.
func (h *Handle) HungUp() (ps []procfs.Process) {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	ps, h.hungUp = h.hungUp, nil
	return ps
}

// undecided reports whether e may still die of the hangup, which goes to the leader's session, or
// has ended and is not reaped yet.
func (h *Handle) undecided(e procfs.Stat) bool {
	if e.Ended() { // its parent may never reap it; we do
		return e.Parent == os.Getpid()
	}
	if h.tty == nil || e.Session != h.self.PID {
		return false
	}
	return diesOf(e.PID, syscall.SIGHUP)
}
