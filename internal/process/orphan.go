//go:build unix

package process

import (
	"cmp"
	"slices"
	"syscall"
)

// An orphan is a process whose parents have ended and that came to us.
type orphan struct {
	entry
	of   *Handle       // nil: can't be told
	may  []*Handle     // whose it may be then, also those whose tree was proven gone, the newest first; none: no job's
	seen map[int]entry // what descended from it, when it was last looked at while it couldn't be told
}

// adopt takes in those of our children that we did not start, and looks how those are now that it took in before. What
// can't be told is looked at again: one that came to us in the middle of an exec had no environment, and none of its files
// may have told either. That there is one job left that it may be from tells nothing.
func (f *family) adopt(pids []int) {
	var came, untold []*orphan
	for _, pid := range pids {
		e, ok := inspect(pid)
		if !ok || e.session == f.session {
			continue
		}
		f.mu.Lock()
		o := f.orphans[pid]
		if o != nil {
			o.entry = e
		}
		f.mu.Unlock()
		switch {
		case o == nil:
			came = append(came, &orphan{entry: e})
		case o.of == nil && !o.ended(): // it is changed by looks only
			untold = append(untold, o)
		}
	}
	if len(came)+len(untold) == 0 {
		return
	}
	l := f.lineage()
	for told := true; told; { // one tells of another
		told = false
		for _, o := range untold {
			told = f.reclaim(o, l) || told
		}
		if told {
			l = f.lineage()
		}
	}
	for _, o := range came {
		f.enter(o, l)
	}
}

// reclaim looks again whose an orphan is that couldn't be told, and tells whether it is known now.
func (f *family) reclaim(o *orphan, l *lineage) bool {
	if o.of != nil {
		return false
	}
	of := f.evident(o.entry, o.may, l)
	f.mu.Lock()
	defer f.mu.Unlock()
	if of != nil {
		o.of, o.may = of, nil
	}
	return of != nil
}

// enter enters one that has just come.
func (f *family) enter(o *orphan, l *lineage) {
	o.of, o.may = f.attribute(o.entry, l)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orphans[o.PID] = o
	l.add(o)
	if !o.ended() {
		for _, owner := range o.owners() {
			owner.guard.add(o.Process)
		}
	}
}

// owners are those who must hear of o.
func (o *orphan) owners() []*Owner {
	if o.of != nil {
		return []*Owner{o.of.owner}
	}
	var owners []*Owner
	for _, h := range o.may {
		if !slices.Contains(owners, h.owner) {
			owners = append(owners, h.owner)
		}
	}
	return owners
}

// bury reaps an orphan that has ended.
func (f *family) bury(pid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.orphans[pid]
	if o == nil || !o.ended() {
		return
	}
	var status syscall.WaitStatus
	n, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	for err == syscall.EINTR {
		n, err = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	}
	if n == 0 && err == nil { // not its last thread's end
		return
	}
	delete(f.orphans, pid)
	f.buried.Add(1)
	for _, owner := range o.owners() {
		owner.guard.forget(o.Process)
	}
	if o.of == nil {
		f.late = append(f.late, o)
		return
	}
	o.of.buried++
	o.of.unsure = true
	if h := o.of; !h.climbed && err == nil && status.Signaled() && status.Signal() == syscall.SIGHUP && h.ended() {
		h.hungUp = append(h.hungUp, o.Process)
	}
}

// ended tells whether the leader has ended, be it that follow does not know yet: who else looks may come before, and then
// what the leader's end hung up must be known for such. The caller holds kin.mu.
func (h *Handle) ended() bool {
	if h.gone {
		return true
	}
	e, ok := inspect(h.self.PID)
	return !ok || e.Start != h.self.Start || e.ending() // not ok: it is being reaped
}

// attribute finds out whose an orphan is: by what is evident, and if nothing is because there was only one it can be
// from. If it can't be told it returns whose it may be.
func (f *family) attribute(e entry, l *lineage) (of *Handle, may []*Handle) {
	may, only := f.candidates(e, l)
	if of = f.evident(e, may, l); of != nil {
		return of, nil
	}
	if only {
		return may[0], nil
	}
	return nil, may
}

// candidates are those that e may be from, the newest first, and whether there is only one: any that has something left,
// and any that an orphan may be from that can't be told and that e may descend from. The latter may have been dropped, for
// what can't be told keeps none in the table. If e was seen to descend from such an orphan, it is from none but these.
func (f *family) candidates(e entry, l *lineage) (may []*Handle, only bool) {
	if o := l.begetter(e); o != nil {
		return o.may, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.handles {
		if h.self.Start <= e.Start {
			may = append(may, h)
		}
	}
	only = len(may) == 1 && (l.eldest == nil || l.eldest.Start > e.Start)
	for h, since := range l.since {
		if since <= e.Start && !f.handles[h] {
			may = append(may, h)
		}
	}
	// A number or terminal that two have had is the newer one's.
	slices.SortFunc(may, func(a, b *Handle) int { return cmp.Compare(b.number, a.number) })
	return may, only
}

// untold are the orphans that can't be told, and those that the last look has buried: what these have left may come to us
// only now. The caller holds mu.
func (f *family) untold() []*orphan {
	orphans := slices.Clone(f.late)
	for _, o := range f.orphans {
		if o.of == nil {
			orphans = append(orphans, o)
		}
	}
	return orphans
}

// remember looks what descends from the orphans that can't be told, whose own orphans pass for theirs.
func (f *family) remember() {
	f.mu.Lock()
	orphans := f.untold()
	f.mu.Unlock()
	for _, o := range orphans { // they are changed by looks only
		if !o.ended() {
			o.seen = recall(o.seen, walk(0, []Process{o.Process}))
		}
	}
}

// recall is a tree as it is now, with those seen in it before that have lost their parents and are on their way to us.
func recall(old map[int]entry, now []entry) map[int]entry {
	seen := make(map[int]entry, len(now))
	for _, e := range now {
		seen[e.PID] = e
	}
	for pid, was := range old {
		if _, ok := seen[pid]; ok {
			continue
		}
		if e, ok := inspect(pid); ok && e.Start == was.Start {
			seen[pid] = e
		}
	}
	return seen
}

// evident tells which of those it may be from a process belongs to: by ancestry seen earlier, session, mark, or open
// files; nil if none of these does. One whose tree was proven gone has nothing.
func (f *family) evident(e entry, may []*Handle, l *lineage) *Handle {
	f.mu.Lock()
	may = slices.DeleteFunc(slices.Clone(may), func(h *Handle) bool { return !f.handles[h] })
	f.mu.Unlock()
	i := slices.IndexFunc(may, func(h *Handle) bool { return l.knows(h, e) })
	if i >= 0 {
		return may[i]
	}
	if e.ended() { // neither its environment nor its files are there any more
		return nil
	}
	if i = slices.IndexFunc(may, marked(e.PID)); i >= 0 {
		return may[i]
	}
	if ids := openFiles(e.PID); len(ids) > 0 {
		for _, h := range may {
			if slices.ContainsFunc(h.files, func(id fileID) bool { return slices.Contains(ids, id) }) {
				return h
			}
		}
	}
	return nil
}

// marked tells of a handle whether it gave the process its mark.
func marked(pid int) func(*Handle) bool {
	values := make(map[string]string)
	return func(h *Handle) bool {
		name := h.owner.config.Mark
		v, ok := values[name]
		if !ok {
			v, _ = variable(pid, name)
			values[name] = v
		}
		return v != "" && v == h.mark
	}
}

// unclaimed are the living orphans whose job can't be told and that pick chooses.
func (f *family) unclaimed(pick func(*orphan) bool) []Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ps []Process
	for _, o := range f.orphans {
		if o.of == nil && len(o.may) > 0 && !o.ended() && pick(o) {
			ps = append(ps, o.Process)
		}
	}
	slices.SortFunc(ps, func(a, b Process) int { return a.PID - b.PID })
	return ps
}

// endUnclaimed ends the orphans that can't be told once the last of the jobs they may belong to has ended.
func (f *family) endUnclaimed() {
	idle := func(o *orphan) bool {
		return !slices.ContainsFunc(o.may, func(h *Handle) bool { return !h.gone })
	}
	if len(f.unclaimed(idle)) == 0 {
		return
	}
	wind(func() []entry {
		f.look()
		return walk(0, f.unclaimed(idle))
	}, restTime, func(Rung) {})
}
