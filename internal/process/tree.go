//go:build unix

package process

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/procset"
)

// Tree returns every living process of the tree, parents before their children. If the error is not
// nil, the list may lack processes. A process that could not be inspected is listed as alive.
func (h *Handle) Tree() ([]procfs.Process, error) {
	es, err := h.scan()
	return procset.Living(es), err
}

// Descendants returns every living process that has the leader among its ancestors, parents before
// their children. If the error is not nil, the list may lack processes, as with Tree.
func (h *Handle) Descendants() ([]procfs.Process, error) {
	reaper.mu.Lock()
	reaped := h.reaped
	reaper.mu.Unlock()
	if reaped {
		return nil, nil
	}
	es, err := h.members()
	below := map[int]bool{h.self.PID: true}
	return slices.DeleteFunc(procset.Living(es), func(p procfs.Process) bool {
		if !below[p.Parent] {
			return true
		}
		below[p.PID] = true
		return false
	}), err
}

// Unattributed returns the unattributed orphans that could belong to h, and their descendants:
// living processes that belong to h or to another job. Parents come before their children. If the
// error is not nil, the list may lack processes, as with Tree.
func (h *Handle) Unattributed() ([]procfs.Process, error) {
	es, err := walk(0, reaper.unattributed(func(o *orphan) bool {
		return slices.Contains(o.candidates, h) && o.onlyOf(h.owner, reaper.owners)
	}))
	return procset.Living(es), err
}

// HandleOf returns the handle whose tree a process belongs to. It returns nil if o has none, the process has
// ended, or it is an orphan whose job is unknown.
func (o *Owner) HandleOf(pid int) *Handle {
	top := topOf(pid)
	h := reaper.handleOf(top)
	if h == nil && top != 0 { // perhaps an orphan that came to us since the last scan
		reaper.scan() // an error: it stays unknown
		h = reaper.handleOf(top)
	}
	if h == nil || h.owner != o {
		return nil
	}
	return h
}

// topOf returns the child of ours that a process is or descends from, or 0 if there is none.
func topOf(pid int) int {
	var below procfs.Stat
	for pid > 0 {
		s, err := procfs.Inspect(pid)
		if err != nil || below.PID != 0 && s.Start > below.Start { // its parent has ended meanwhile
			return 0
		}
		if s.Parent == os.Getpid() {
			return pid
		}
		below, pid = s, s.Parent
	}
	return 0
}

// handleOf returns the handle that a child of ours leads, or that it is an orphan of, or nil.
func (r *processReaper) handleOf(child int) *Handle {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.handles {
		if h.self.PID == child && !h.reaped {
			return h
		}
	}
	if o := r.orphans[child]; o != nil {
		return o.handle
	}
	return nil
}

// scan returns every process of the tree of h, including orphans that came to us a moment ago.
func (h *Handle) scan() ([]procfs.Stat, error) {
	scanErr := reaper.scan() // the kernel does not announce orphans that come to us
	es, err := h.members()
	return es, cmp.Or(scanErr, err)
}

// remaining returns the tree of h as a set that can be ended.
func (h *Handle) remaining() procset.Set { return reaper.set(h.scan) }

// members returns every process of the tree that has not been reaped, parents before their
// children. It records them as seen: if one becomes an orphan, that shows its job.
func (h *Handle) members() ([]procfs.Stat, error) {
	reaper.mu.Lock()
	var roots []procfs.Process
	if !h.reaped {
		roots = append(roots, h.self)
	}
	for _, o := range reaper.orphans {
		if o.handle == h {
			roots = append(roots, o.Process)
		}
	}
	old := h.seen
	reaper.mu.Unlock()
	if len(roots) == 0 && !lingers(h.self.PID) {
		return nil, nil
	}
	es, err := walk(h.self.PID, roots)
	if len(es) <= 1 && len(old) == 0 { // most jobs: the leader alone
		return es, err
	}
	seen := retain(old, es)
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	if !reaper.handles[h] { // it ended since the walk began: the guard has forgotten its sessions
		return nil, err
	}
	// Owner.Adopt can have made a process of the walk a started one.
	adopted := func(pid int) bool { return pid != h.self.PID && reaper.started[pid] }
	es = slices.DeleteFunc(es, func(e procfs.Stat) bool { return adopted(e.PID) })
	maps.DeleteFunc(seen, func(pid int, _ procfs.Stat) bool { return adopted(pid) })
	h.seen = seen
	h.updateGuard()
	return es, err
}

// retain returns a tree as it is now, by pid, together with those processes of an earlier scan that
// have lost their parents and will come to us.
func retain(old map[int]procfs.Stat, now []procfs.Stat) map[int]procfs.Stat {
	seen := make(map[int]procfs.Stat, len(now))
	for _, e := range now {
		seen[e.PID] = e
	}
	for pid, was := range old {
		if _, ok := seen[pid]; ok {
			continue
		}
		switch e, err := procfs.Inspect(pid); {
		case err == nil && e.Start == was.Start:
			seen[pid] = e
		case err != nil && !errors.Is(err, procfs.ErrGone): // counts as alive
			seen[pid] = was
		}
	}
	return seen
}

// updateGuard makes the guard responsible for the sessions of the tree. If we are killed, the
// hangup of the terminals can end the parents that connect these sessions with the tree before the
// guard scans. The caller holds reaper.mu.
func (h *Handle) updateGuard() {
	sessions := make(map[int]procfs.Process)
	for _, e := range h.seen {
		leader, ok := h.seen[e.Session]
		if known, before := h.sessions[e.Session]; before { // the session's leader may have ended
			sessions[e.Session] = known
		} else if ok && leader.Session == leader.PID && leader.PID != h.self.PID {
			sessions[e.Session] = leader.Process
			h.owner.guard.add(leader.Process)
		}
	}
	for session, leader := range h.sessions {
		if _, ok := sessions[session]; !ok {
			h.owner.guard.forget(leader)
		}
	}
	h.sessions = sessions
}
