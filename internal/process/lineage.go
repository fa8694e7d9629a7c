//go:build unix

package process

import "slices"

// A lineage tells by descent whose an orphan is. It is made for one look, which may have to tell thousands.
type lineage struct {
	of     map[trait][]*Handle // who had it in the tree
	untold map[trait]*orphan   // the eldest that can't be told and that had it below
	since  map[*Handle]uint64  // the start of the eldest that can't be told and may be from the handle
	eldest *orphan             // of all that can't be told
}

// A trait is what a process has in common with what was seen of a tree: it is one of that, or in the session of one.
type trait struct {
	number int
	start  uint64 // 0: the number is a session's
}

func (e entry) traits() []trait { return []trait{{e.session, 0}, {e.PID, e.Start}} }

// lineage is what is known now.
func (f *family) lineage() *lineage {
	l := &lineage{of: make(map[trait][]*Handle), untold: make(map[trait]*orphan), since: make(map[*Handle]uint64)}
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.handles {
		l.tell(h, trait{number: h.self.PID})
		for _, e := range h.seen {
			l.tell(h, e.traits()...)
		}
	}
	for _, o := range f.orphans {
		l.add(o)
	}
	for _, o := range f.late {
		l.add(o)
	}
	return l
}

// add adds what one orphan tells of others.
func (l *lineage) add(o *orphan) {
	traits := []trait{{number: o.session}}
	for _, e := range o.seen {
		traits = append(traits, e.traits()...)
	}
	if o.of != nil {
		l.tell(o.of, traits...)
		return
	}
	for _, t := range traits {
		l.untold[t] = elder(l.untold[t], o)
	}
	l.eldest = elder(l.eldest, o)
	for _, h := range o.may {
		if since, ok := l.since[h]; !ok || o.Start < since {
			l.since[h] = o.Start
		}
	}
}

func (l *lineage) tell(h *Handle, traits ...trait) {
	for _, t := range traits {
		if !slices.Contains(l.of[t], h) {
			l.of[t] = append(l.of[t], h)
		}
	}
}

// knows tells whether e was seen in the tree of h, or is in a session of it.
func (l *lineage) knows(h *Handle, e entry) bool {
	return slices.ContainsFunc(e.traits(), func(t trait) bool { return slices.Contains(l.of[t], h) })
}

// begetter is an orphan that can't be told and that e was seen to descend from, or that had its session below; nil if
// there is none.
func (l *lineage) begetter(e entry) *orphan {
	for _, t := range e.traits() {
		if o := l.untold[t]; o != nil && o.Start <= e.Start {
			return o
		}
	}
	return nil
}

func elder(a, b *orphan) *orphan {
	if a == nil || b.Start < a.Start {
		return b
	}
	return a
}
