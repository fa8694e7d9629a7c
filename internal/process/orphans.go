//go:build unix

package process

import (
	"cmp"
	"slices"
	"time"

	"asyncrepl/internal/ladder"
	"asyncrepl/internal/procfs"
)

// An orphan is a process whose parents have ended and that came to us.
type orphan struct {
	procfs.Stat
	handle *Handle // the job that it belongs to; nil: unknown

	// If the job is unknown: the jobs that it may belong to, newest first, also those whose tree was
	// proven gone. None: it is of no job.
	candidates []*Handle

	// If the job is unknown: its descendants at the last scan, by pid.
	seen map[int]procfs.Stat
}

// attributeAll finds the jobs of fresh orphans, and of those that could not be attributed before.
func (r *processReaper) attributeAll(fresh, unattributed []*orphan) {
	a := r.ancestry()
	for found := true; found; { // one that is attributed can show whose another is
		found = false
		for _, o := range unattributed {
			found = r.attributeAgain(o, a) || found
		}
		if found {
			a = r.ancestry()
		}
	}
	for _, o := range fresh {
		r.enter(o, a)
	}
}

// attributeAgain looks for evidence of the job of an orphan that could not be attributed before. It
// reports whether there is some now.
func (r *processReaper) attributeAgain(o *orphan, a *ancestry) bool {
	if o.handle != nil {
		return false
	}
	h := r.evidence(o.Stat, o.candidates, a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if h != nil {
		o.handle, o.candidates = h, nil
	}
	return h != nil
}

// enter enters an orphan that has just come.
func (r *processReaper) enter(o *orphan, a *ancestry) {
	o.handle, o.candidates = r.attribute(o.Stat, a)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphans[o.PID] = o
	a.add(o)
	if !o.Ended() {
		for _, owner := range o.owners() {
			owner.guard.add(o.Process)
		}
	}
}

// owners returns the Owners of the jobs that o belongs to or may belong to.
func (o *orphan) owners() []*Owner {
	if o.handle != nil {
		return []*Owner{o.handle.owner}
	}
	var owners []*Owner
	for _, h := range o.candidates {
		if !slices.Contains(owners, h.owner) {
			owners = append(owners, h.owner)
		}
	}
	return owners
}

// attribute finds the job of an orphan: the one that the evidence shows, or without evidence the
// only one that it can be from. If there are several, it returns the candidates.
func (r *processReaper) attribute(e procfs.Stat, a *ancestry) (h *Handle, candidates []*Handle) {
	candidates, only := r.findCandidates(e, a)
	if h = r.evidence(e, candidates, a); h != nil {
		return h, nil
	}
	if only {
		return candidates[0], nil
	}
	return nil, candidates
}

// findCandidates returns the jobs that e may be from, newest first, and whether there is only one.
// These are the jobs of which something is left, and the candidates of each unattributed orphan
// that e may descend from; such a candidate can have been dropped, because an unattributed orphan
// keeps none in the table. If e was seen to descend from an unattributed orphan, the candidates of
// that orphan are the only ones.
func (r *processReaper) findCandidates(e procfs.Stat, a *ancestry) (candidates []*Handle, only bool) {
	if o := a.ancestor(e); o != nil {
		return o.candidates, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.handles {
		if h.self.Start <= e.Start {
			candidates = append(candidates, h)
		}
	}
	only = len(candidates) == 1 && (a.oldest == nil || a.oldest.Start > e.Start)
	for h, since := range a.since {
		if since <= e.Start && !r.handles[h] {
			candidates = append(candidates, h)
		}
	}
	// A pid or terminal that two jobs have had belongs to the newer one.
	slices.SortFunc(candidates, func(a, b *Handle) int { return cmp.Compare(b.number, a.number) })
	return candidates, only
}

// evidence returns that of the candidates which a process belongs to by ancestry seen earlier,
// session, mark or open files, or nil if none of these shows one. What can't be read now is no
// evidence; the next scan tries again. A tree that was proven gone has no members.
func (r *processReaper) evidence(e procfs.Stat, candidates []*Handle, a *ancestry) *Handle {
	r.mu.Lock()
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(h *Handle) bool { return !r.handles[h] })
	r.mu.Unlock()
	i := slices.IndexFunc(candidates, func(h *Handle) bool { return a.includes(h, e) })
	if i >= 0 {
		return candidates[i]
	}
	if e.Ended() { // its environment and its files are gone
		return nil
	}
	if i = slices.IndexFunc(candidates, carriesMark(e.PID)); i >= 0 {
		return candidates[i]
	}
	if ids, _ := procfs.Files(e.PID); len(ids) > 0 {
		for _, h := range candidates {
			if slices.ContainsFunc(h.files, func(id procfs.FileID) bool { return slices.Contains(ids, id) }) {
				return h
			}
		}
	}
	return nil
}

// carriesMark returns a function that reports whether a process carries the mark of a handle.
func carriesMark(pid int) func(*Handle) bool {
	values := make(map[string]string)
	return func(h *Handle) bool {
		name := h.owner.config.Mark
		v, ok := values[name]
		if !ok {
			v, _, _ = procfs.LookupEnv(pid, name)
			values[name] = v
		}
		return v != "" && v == h.mark
	}
}

// unattributed returns the orphans whose job is unknown, and those that the last scan has reaped:
// what these left may come to us only now. The caller holds mu.
func (r *processReaper) unattributed() []*orphan {
	orphans := slices.Clone(r.unowned)
	for _, o := range r.orphans {
		if o.handle == nil {
			orphans = append(orphans, o)
		}
	}
	return orphans
}

// rememberDescendants remembers what descends from the unattributed orphans. When these descendants
// become orphans themselves, they have the same candidates.
func (r *processReaper) rememberDescendants() {
	r.mu.Lock()
	orphans := r.unattributed()
	r.mu.Unlock()
	for _, o := range orphans { // only scans change them
		if !o.Ended() {
			es, _ := walk(0, []procfs.Process{o.Process}) // an error: the next scan sees more
			o.seen = retain(o.seen, es)
		}
	}
}

// unclaimed returns the living orphans that have candidates and that pick chooses, by pid.
func (r *processReaper) unclaimed(pick func(*orphan) bool) []procfs.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ps []procfs.Process
	for _, o := range r.orphans {
		if o.handle == nil && len(o.candidates) > 0 && !o.Ended() && pick(o) {
			ps = append(ps, o.Process)
		}
	}
	slices.SortFunc(ps, func(a, b procfs.Process) int { return a.PID - b.PID })
	return ps
}

// endUnclaimed ends the unattributed orphans once the leader of each of their candidates has ended,
// with grace from terminate to kill.
func (r *processReaper) endUnclaimed(grace time.Duration) {
	idle := func(o *orphan) bool {
		return !slices.ContainsFunc(o.candidates, func(h *Handle) bool { return !h.reaped })
	}
	if len(r.unclaimed(idle)) == 0 {
		return
	}
	terminateThenKill(func() ([]procfs.Stat, error) {
		scanErr := r.scan()
		es, err := walk(0, r.unclaimed(idle))
		return es, cmp.Or(scanErr, err)
	}, grace, func(ladder.Rung) {})
}
