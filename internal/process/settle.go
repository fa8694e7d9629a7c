//go:build unix

package process

import (
	"cmp"
	"os"
	"slices"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/procset"
)

const (
	// settleLimit bounds how long Settle waits for processes that can die of the hangup. Without
	// the wait, a reply would name processes as left running that end a moment later; without the
	// limit, a daemon that survives would delay the reply.
	settleLimit = 50 * time.Millisecond

	settlePause = time.Millisecond
)

// Settle waits for the end of the leader. It returns the processes of the tree that the hangup of
// the leader's terminal ended, and those left running. It waits up to 50 ms for processes that can
// still die of the hangup, and longer for those that surely will. If the tree can't be checked for
// 2 s, it returns an error and no process as left.
func (h *Handle) Settle() (hungUp, left []procfs.Process, err error) {
	<-h.done
	begin := time.Now()
	scanErr := h.scanErr
	for reaped := 0; ; {
		es, err := h.members()
		err = cmp.Or(scanErr, err)
		decided := !h.worthWaiting(es, h.undecided, begin)
		reaper.mu.Lock()
		n := h.reapedOrphans
		reaper.mu.Unlock()
		switch {
		case err != nil && time.Since(begin) > procset.CheckLimit:
			return h.HungUp(), nil, procset.Unchecked(err)
		case err != nil:
		// An orphan that was reaped since may have left children.
		case decided && (n == reaped || time.Since(begin) > h.owner.settle):
			return h.HungUp(), procset.Living(es), nil
		}
		if n == reaped {
			time.Sleep(settlePause)
		}
		reaped = n
		scanErr = reaper.scan()
	}
}

// HungUp returns the processes that the hangup has ended since the last call of HungUp or Settle.
// On a busy machine some end after Settle.
func (h *Handle) HungUp() (ps []procfs.Process) {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	ps, h.hungUp = h.hungUp, nil
	return ps
}

// undecided reports whether e can still die of the hangup, which goes to the leader's session, or
// is a zombie that we must reap.
func (h *Handle) undecided(e procfs.Stat) bool {
	if e.Ended() { // another parent than us need never reap it
		return e.Parent == os.Getpid()
	}
	if h.tty == nil || e.Session != h.self.PID {
		return false
	}
	return procset.DiesOf(e.PID, syscall.SIGHUP)
}

// worthWaiting reports whether to wait for one of es to end. A process that can die of a signal
// that was sent before begin, as dying reports, gets 50 ms. A process that surely ends gets 2 s: a
// busy machine can take long to run it, and it needs no higher rung.
func (h *Handle) worthWaiting(es []procfs.Stat, dying func(procfs.Stat) bool, begin time.Time) bool {
	waited := time.Since(begin)
	return slices.ContainsFunc(es, func(e procfs.Stat) bool {
		switch {
		case waited <= h.owner.settle && dying(e):
			return true
		case waited > procset.CheckLimit:
			return false
		}
		return e.Doomed() || e.Ended() && e.Parent == os.Getpid()
	})
}
