//go:build unix

// A scan of our children
//
// The kernel does not announce the orphans among our descendants that it gives us. A scan lists our
// children and goes through four steps: it enters the orphans that are new and attributes them to
// their jobs (orphans.go), records the descendants of the unattributed ones, reaps those that have
// ended, and drops the handles whose leader is reaped and that have no orphan left. A reaped orphan
// may have left children, which came to us after the list was made. So a scan that has reaped one
// is followed by another, and only then is a tree proven gone.

package process

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/procset"
)

// scan adopts the orphans that have come to us and reaps those that have ended. It takes a few
// dozen microseconds if there are none. If it fails, nothing is proven gone.
//
// Callers that wait while another scan runs share the one after it, which begins after all of their
// calls. Else the trees of a thousand Owners that end at once would each be scanned for by a list of
// all children of the program.
func (r *processReaper) scan() error {
	r.joining.Lock()
	shared, first := r.next, r.next == nil
	if first {
		shared = &sharedScan{over: make(chan struct{})}
		r.next = shared
	}
	r.joining.Unlock()
	if !first {
		<-shared.over
		return shared.err
	}
	r.scanning.Lock()
	defer r.scanning.Unlock()
	r.joining.Lock()
	r.next = nil
	r.joining.Unlock()
	defer close(shared.over)
	for range scanRounds {
		again, err := r.scanOnce()
		if !again || err != nil {
			shared.err = err
			return err
		}
	}
	return nil
}

// scanRounds bounds how often a scan is repeated because the last round has reaped an orphan. A
// fork bomb can give us orphans as fast as we reap them, and the stop that must end it waits for
// the scan. The next scan sees the orphans that this one misses.
const scanRounds = 8

// A sharedScan is a scan that several callers wait for.
type sharedScan struct {
	over chan struct{} // closed when the scan is over
	err  error         // set before over is closed
}

// scanOnce makes one scan. It reports whether another one must follow, because an orphan that it
// reaped may have left children, see retire.
func (r *processReaper) scanOnce() (again bool, err error) {
	pids, reaped, err := r.list()
	if err != nil {
		return false, err
	}
	err = r.adopt(pids) // all, before any of them is reaped: one can be evidence for another
	r.rememberDescendants()
	r.justReaped = nil // the children of these orphans have been adopted
	for _, pid := range pids {
		r.reap(pid)
	}
	if err != nil {
		return false, err
	}
	return r.retire(reaped) || len(r.justReaped) > 0, nil
}

// set returns the processes that scan finds as a set that can be ended.
func (r *processReaper) set(scan func() ([]procfs.Stat, error)) procset.Set {
	return procset.Set{Scan: scan, Reaped: r.reaped.Load}
}

// list returns our children that we did not start, and the handles whose leader was reaped before:
// the children of these leaders are among the pids.
func (r *processReaper) list() (pids []int, reaped []*Handle, err error) {
	r.steps.Lock()
	defer r.steps.Unlock()
	if pids, err = r.children(); err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pids = slices.DeleteFunc(pids, func(pid int) bool { return r.started[pid] })
	for h := range r.handles {
		if h.reaped {
			reaped = append(reaped, h)
		}
	}
	return pids, reaped, nil
}

// adopt enters the children in pids, which we did not start, that are not in the table yet, and
// inspects the others again. It tries again to attribute orphans whose job is unknown: during an
// exec a process has no environment to read, and its files need not have been evidence. A child
// that the kernel hides from us because it is another user's (hidepid in
// https://man7.org/linux/man-pages/man5/proc.5.html) is left alone; we could not end it either.
func (r *processReaper) adopt(pids []int) (err error) {
	var fresh, unattributed []*orphan
	for _, pid := range pids {
		e, inspectErr := procfs.Inspect(pid)
		if inspectErr != nil {
			if !errors.Is(inspectErr, procfs.ErrGone) && !errors.Is(inspectErr, fs.ErrPermission) {
				err = cmp.Or(err, inspectErr)
			}
			continue
		}
		if e.Session == r.session {
			continue
		}
		r.mu.Lock()
		o := r.orphans[pid]
		if o != nil {
			o.Stat = e
		}
		r.mu.Unlock()
		switch {
		case o == nil:
			fresh = append(fresh, &orphan{Stat: e})
		case o.handle == nil && !o.Ended(): // only scans change it
			unattributed = append(unattributed, o)
		}
	}
	if len(fresh)+len(unattributed) > 0 {
		r.attribute(fresh, unattributed) // see orphans.go
	}
	return err
}

// reap reaps an orphan that has ended.
func (r *processReaper) reap(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.orphans[pid]
	if o == nil || !o.Ended() {
		return
	}
	var status syscall.WaitStatus
	n, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	for err == syscall.EINTR {
		n, err = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	}
	if n == 0 && err == nil { // one of its threads still runs
		return
	}
	r.forget(o)
	delete(r.disowned, key{o.PID, o.Start})
	r.reaped.Add(1)
	if o.handle == nil {
		r.justReaped = append(r.justReaped, o)
		return
	}
	h := o.handle
	h.reapedOrphans++
	h.rescan = true
	if !h.stopping && err == nil && status.Signaled() && status.Signal() == syscall.SIGHUP && h.ending() {
		h.hungUp = append(h.hungUp, o.Process)
	}
}

// ending reports whether the leader has ended. It does not rely on follow, because a scan can run
// before follow has noticed the end, and must know already that a SIGHUP came from it. A leader
// that could not be inspected has not ended. The caller holds reaper.mu.
func (h *Handle) ending() bool {
	if h.reaped {
		return true
	}
	e, err := procfs.Inspect(h.self.PID)
	if err != nil {
		return errors.Is(err, procfs.ErrGone) // it is being reaped
	}
	return e.Start != h.self.Start || e.Ending()
}

// retire drops the handles among reaped, those with reaped leaders, whose tree is gone. It reports
// whether another scan must follow: if an orphan of a tree has just been reaped, its children came
// to us after our children were listed, so only the next scan shows whether there are any.
func (r *processReaper) retire(reaped []*Handle) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.orphans {
		if i := slices.Index(reaped, o.handle); i >= 0 {
			reaped = slices.Delete(reaped, i, i+1)
		}
	}
	for _, h := range reaped {
		switch {
		case !r.handles[h] || lingers(h.self.PID):
		case h.rescan:
			h.rescan, again = false, true
		default:
			delete(r.handles, h)
			close(h.treeGone)
			h.owner.guard.forget(h.self)
			for _, leader := range h.sessions {
				h.owner.guard.forget(leader)
			}
		}
	}
	return again
}
