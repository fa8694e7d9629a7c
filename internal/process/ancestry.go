//go:build unix

// How descent shows the job of an orphan
//
// When an orphan comes to us, its parents are gone and can't be asked. An earlier scan may have
// seen it in a tree while they lived, though, or have seen its session there: the trees are those
// of the handles and those below the unattributed orphans. An ancestry is an index of everything
// that the scans saw, by process and by session. Each scan that has orphans to attribute makes one,
// because there can be thousands, and adds each orphan that it enters. Seen in a job's tree is
// evidence; seen below an unattributed orphan limits the candidates to that orphan's.

package process

import (
	"slices"

	"asyncrepl/internal/kernel/procfs"
)

// An ancestry is an index of the trees that earlier scans saw.
type ancestry struct {
	trees        map[key][]*Handle // the handles whose tree the process or session was seen in
	unattributed map[key]*orphan   // the oldest unattributed orphan that it was seen below

	oldest         *orphan            // the oldest unattributed orphan; nil: there is none
	candidateSince map[*Handle]uint64 // the start of the oldest orphan that can be the handle's
}

// A key identifies a process or a session.
type key struct {
	id    int    // a pid or a session ID
	start uint64 // the start time of the process; 0: id is a session ID
}

func sessionKey(id int) key { return key{id: id} }

// keys returns the keys of the process e and of its session.
func keys(e procfs.Stat) []key { return []key{sessionKey(e.Session), {e.PID, e.Start}} }

// newAncestry returns the index of the trees as the last scans saw them.
func (r *processReaper) newAncestry() *ancestry {
	a := &ancestry{trees: make(map[key][]*Handle), unattributed: make(map[key]*orphan), candidateSince: make(map[*Handle]uint64)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.handles {
		a.addToTree(h, sessionKey(h.self.PID))
		for _, e := range h.seen {
			a.addToTree(h, keys(e)...)
		}
	}
	for _, o := range r.orphans {
		a.addOrphan(o)
	}
	for _, o := range r.justReaped {
		a.addOrphan(o)
	}
	return a
}

// addOrphan adds the session of o and the descendants that were seen below it: to the tree of its
// job or, if it is unattributed, to its own.
func (a *ancestry) addOrphan(o *orphan) {
	ks := []key{sessionKey(o.Session)}
	for _, e := range o.seen {
		ks = append(ks, keys(e)...)
	}
	if o.handle != nil {
		a.addToTree(o.handle, ks...)
		return
	}
	for _, k := range ks {
		a.unattributed[k] = older(a.unattributed[k], o)
	}
	if !o.disowned {
		a.oldest = older(a.oldest, o)
	}
	for _, h := range o.candidates {
		if since, ok := a.candidateSince[h]; !ok || o.Start < since {
			a.candidateSince[h] = o.Start
		}
	}
}

func (a *ancestry) addToTree(h *Handle, ks ...key) {
	for _, k := range ks {
		if !slices.Contains(a.trees[k], h) {
			a.trees[k] = append(a.trees[k], h)
		}
	}
}

// includes reports whether e or its session was seen in the tree of h.
func (a *ancestry) includes(h *Handle, e procfs.Stat) bool {
	return slices.ContainsFunc(keys(e), func(k key) bool { return slices.Contains(a.trees[k], h) })
}

// unattributedAncestor returns an unattributed orphan that e or its session was seen below, or nil.
func (a *ancestry) unattributedAncestor(e procfs.Stat) *orphan {
	for _, k := range keys(e) {
		if o := a.unattributed[k]; o != nil && o.Start <= e.Start {
			return o
		}
	}
	return nil
}

// older returns the one of a and b that started first. If a is nil, it returns b.
func older(a, b *orphan) *orphan {
	if a == nil || b.Start < a.Start {
		return b
	}
	return a
}
