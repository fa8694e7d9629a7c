//go:build unix

// How an orphan is attributed to a job
//
// An orphan is a process that a job started, directly or not, and that has come to us because its
// parents have ended. It belongs to the job that evidence shows: an earlier scan saw it or its
// session in the job's tree, it has one of the job's pipes, sockets or its terminal open, or its
// environment carries the job's mark, which an adopted process shows of its parent. Without
// evidence it belongs to the only job that can have started it, if there is just one; otherwise it
// stays unattributed, with all jobs that can have started it as its candidates, which its own
// descendants share. Each later scan searches for evidence again; that fewer candidates are left is
// not evidence. An attributed orphan ends with its job's tree, and an unattributed one when the
// leaders of all its candidates have ended.

package process

import (
	"cmp"
	"slices"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/ladder"
)

// An orphan is a process that came to us when its parents had ended.
type orphan struct {
	procfs.Stat
	handle *Handle // the job that it belongs to; nil: unattributed

	// Of an unattributed orphan: the jobs that could have started it, newest first, including those
	// whose tree was proven gone. If there are none, no job started it.
	candidates []*Handle

	disowned bool // it belongs to no job, see Disown

	// Of an unattributed orphan: its descendants at the last scan, by pid.
	seen map[int]procfs.Stat
}

// owners returns the Owners of the jobs that o belongs to or could belong to.
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

// onlyOf reports whether no job of another Owner can have started o. An orphan that no job started
// belongs to the Owner if it is the only one. The caller holds reaper.mu.
func (o *orphan) onlyOf(owner *Owner, owners int) bool {
	all := o.owners()
	return len(all) == 1 && all[0] == owner || len(all) == 0 && owners == 1 && !o.disowned
}

// sparedBy reports whether owner leaves o to another Owner, whose running job may have started it.
// The caller holds reaper.mu.
func (o *orphan) sparedBy(owner *Owner) bool {
	return slices.ContainsFunc(o.candidates, func(h *Handle) bool { return h.owner != owner && !h.reaped })
}

// forget removes an orphan from the table and from the guards. The caller holds mu.
func (r *processReaper) forget(o *orphan) {
	delete(r.orphans, o.PID)
	for _, owner := range o.owners() {
		owner.guard.forget(o.Process)
	}
}

// attribute enters fresh orphans in the table and finds the jobs of these and of the unattributed.
func (r *processReaper) attribute(fresh, unattributed []*orphan) {
	a := r.newAncestry()
	for changed := true; changed; { // an attributed orphan can be evidence for the others
		changed = false
		for _, o := range unattributed {
			changed = r.reconsider(o, a) || changed
		}
		if changed {
			a = r.newAncestry()
		}
	}
	for _, o := range fresh {
		r.enter(o, a)
	}
}

// reconsider searches again for evidence about an orphan that was unattributed at the last scan. It
// reports whether it has attributed the orphan.
func (r *processReaper) reconsider(o *orphan, a *ancestry) bool {
	if o.handle != nil || o.disowned {
		return false
	}
	h := r.jobByEvidence(o.Stat, o.candidates, a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if h != nil {
		o.handle, o.candidates = h, nil
	}
	return h != nil
}

// enter finds the job of a fresh orphan, and enters the orphan in the table, in a and with the
// guard.
func (r *processReaper) enter(o *orphan, a *ancestry) {
	o.handle, o.candidates = r.findJob(o.Stat, a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := (key{o.PID, o.Start}); r.disowned[k] {
		o.handle, o.candidates, o.disowned = nil, nil, true
	}
	r.orphans[o.PID] = o
	a.addOrphan(o)
	if !o.Ended() {
		for _, owner := range o.owners() {
			owner.guard.add(o.Process)
		}
	}
}

// findJob returns the job of a fresh orphan: the one that the evidence shows or, without evidence,
// the only one that could have started it. If there are several, it returns these as candidates.
func (r *processReaper) findJob(e procfs.Stat, a *ancestry) (h *Handle, candidates []*Handle) {
	candidates, only := r.findCandidates(e, a)
	if h = r.jobByEvidence(e, candidates, a); h != nil {
		return h, nil
	}
	if only {
		return candidates[0], nil
	}
	return nil, candidates
}

// findCandidates returns the jobs that could have started e, newest first, and reports whether e
// must be from the only one of them. The candidates are
//   - the candidates of an unattributed orphan that e was seen to descend from, and no others;
//   - else every job in the table that started before e, and the candidates of every unattributed
//     orphan that started before e, from which e could descend unseen. The latter may have left the
//     table: an unattributed orphan does not keep its candidates there.
func (r *processReaper) findCandidates(e procfs.Stat, a *ancestry) (candidates []*Handle, only bool) {
	if o := a.unattributedAncestor(e); o != nil {
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
	for h, since := range a.candidateSince {
		if since <= e.Start && !r.handles[h] {
			candidates = append(candidates, h)
		}
	}
	// A pid or terminal that two jobs have had belongs to the newer one.
	slices.SortFunc(candidates, func(a, b *Handle) int { return cmp.Compare(b.number, a.number) })
	return candidates, only
}

// jobByEvidence returns the candidate that e belongs to by evidence: ancestry or session seen by an
// earlier scan, open files, or mark, in this order. It returns nil if there is no evidence.
// Anything that can't be read now is no evidence; the next scan tries again. A tree that was proven
// gone has no members.
func (r *processReaper) jobByEvidence(e procfs.Stat, candidates []*Handle, a *ancestry) *Handle {
	r.mu.Lock()
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(h *Handle) bool { return !r.handles[h] })
	r.mu.Unlock()
	i := slices.IndexFunc(candidates, func(h *Handle) bool { return a.includes(h, e) })
	if i >= 0 {
		return candidates[i]
	}
	if e.Ended() { // a zombie has no environment and no files
		return nil
	}
	if ids, _ := procfs.Files(e.PID); len(ids) > 0 {
		for _, h := range candidates {
			if slices.ContainsFunc(h.files, func(id procfs.FileID) bool { return slices.Contains(ids, id) }) {
				return h
			}
		}
	}
	mark, _, _ := procfs.LookupEnv(e.PID, jobMark)
	if i = slices.IndexFunc(candidates, func(h *Handle) bool { return mark != "" && mark == h.mark }); i >= 0 {
		return candidates[i]
	}
	return nil
}

// rememberDescendants records the descendants of the unattributed orphans. When these descendants
// become orphans themselves, they have the same candidates.
func (r *processReaper) rememberDescendants() {
	r.mu.Lock()
	unattributed := slices.Clone(r.justReaped)
	for _, o := range r.orphans {
		if o.handle == nil {
			unattributed = append(unattributed, o)
		}
	}
	r.mu.Unlock()
	for _, o := range unattributed { // only scans change them
		if !o.Ended() {
			es, _ := walk(0, []procfs.Process{o.Process}) // an error: the next scan sees more
			o.seen = retain(o.seen, es)
		}
	}
}

// endUnattributed ends every unattributed orphan if the leaders of all its candidates have ended,
// with grace from terminate to kill.
func (r *processReaper) endUnattributed(grace time.Duration) {
	allEnded := func(o *orphan) bool {
		return !slices.ContainsFunc(o.candidates, func(h *Handle) bool { return !h.reaped })
	}
	if len(r.unattributed(allEnded)) == 0 {
		return
	}
	r.set(func() ([]procfs.Stat, error) {
		scanErr := r.scan()
		es, err := walk(0, r.unattributed(allEnded))
		return es, cmp.Or(scanErr, err)
	}).TerminateThenKill(grace, func(ladder.Rung) {})
}

// unattributed returns, by pid, the living unattributed orphans that have candidates and that pick
// reports true for.
func (r *processReaper) unattributed(pick func(*orphan) bool) []procfs.Process {
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
