//go:build unix

package process

import (
	"slices"

	"asyncrepl/internal/procfs"
)

// An ancestry shows by descent which job an orphan belongs to. It is made for one scan, which may
// have to attribute thousands.
type ancestry struct {
	trees        map[key][]*Handle  // the handles with the key in their tree
	unattributed map[key]*orphan    // the oldest unattributed orphan with the key below it
	since        map[*Handle]uint64 // the start of the oldest unattributed orphan that the handle is a candidate of
	oldest       *orphan            // of all unattributed orphans
}

// A key is what connects a process with a tree: a process of it, or a session.
type key struct {
	id    int    // a pid or a session ID
	start uint64 // 0: id is a session's
}

func keys(e procfs.Stat) []key { return []key{{e.Session, 0}, {e.PID, e.Start}} }

// ancestry returns what is known now.
func (r *processReaper) ancestry() *ancestry {
	a := &ancestry{trees: make(map[key][]*Handle), unattributed: make(map[key]*orphan), since: make(map[*Handle]uint64)}
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.handles {
		a.addKeys(h, key{id: h.self.PID})
		for _, e := range h.seen {
			a.addKeys(h, keys(e)...)
		}
	}
	for _, o := range r.orphans {
		a.add(o)
	}
	for _, o := range r.unowned {
		a.add(o)
	}
	return a
}

// add adds what one orphan shows about others.
func (a *ancestry) add(o *orphan) {
	ks := []key{{id: o.Session}}
	for _, e := range o.seen {
		ks = append(ks, keys(e)...)
	}
	if o.handle != nil {
		a.addKeys(o.handle, ks...)
		return
	}
	for _, k := range ks {
		a.unattributed[k] = older(a.unattributed[k], o)
	}
	a.oldest = older(a.oldest, o)
	for _, h := range o.candidates {
		if since, ok := a.since[h]; !ok || o.Start < since {
			a.since[h] = o.Start
		}
	}
}

func (a *ancestry) addKeys(h *Handle, ks ...key) {
	for _, k := range ks {
		if !slices.Contains(a.trees[k], h) {
			a.trees[k] = append(a.trees[k], h)
		}
	}
}

// includes reports whether e was seen in the tree of h, or is in a session of it.
func (a *ancestry) includes(h *Handle, e procfs.Stat) bool {
	return slices.ContainsFunc(keys(e), func(k key) bool { return slices.Contains(a.trees[k], h) })
}

// ancestor returns an unattributed orphan that e was seen to descend from, or that had e's session
// below it, or nil.
func (a *ancestry) ancestor(e procfs.Stat) *orphan {
	for _, k := range keys(e) {
		if o := a.unattributed[k]; o != nil && o.Start <= e.Start {
			return o
		}
	}
	return nil
}

// older returns the one of a and b that started first. a may be nil.
func older(a, b *orphan) *orphan {
	if a == nil || b.Start < a.Start {
		return b
	}
	return a
}
