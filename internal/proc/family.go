//go:build unix

package proc

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A family is everything that descends from this process. There is one, whatever the number of Owners.
type family struct {
	once    sync.Once // with the first Owner
	ready   sync.Once // with the first start
	session int       // our own: what lives in it is nobody's orphan
	adopts  bool      // orphans come to us

	step    sync.RWMutex // read: start and entry, reap and leave; write: the look at our children
	looking sync.Mutex   // held during a look; orphans are reaped by a look only
	buried  atomic.Int64 // orphans that were reaped, ever

	mu      sync.Mutex
	owners  int
	stop    chan struct{}    // ends the watch for dying children
	started map[int]bool     // children that launch made and wait has not reaped
	handles map[*Handle]bool // those whose tree is not proven gone
	orphans map[int]*orphan  // children that others made
	count   uint64           // of handles ever
	glanced uint64           // the number of the last one whose tree was looked at in turn
}

// An orphan is a process whose parents have ended and that came to us.
type orphan struct {
	entry
	of  *Handle   // nil: can't be told
	may []*Handle // whose it may be then; none: no job's
}

var kin = &family{
	started: make(map[int]bool),
	handles: make(map[*Handle]bool),
	orphans: make(map[int]*orphan),
}

// join begins to watch over our children with the first Owner.
func (f *family) join() {
	f.once.Do(func() {
		f.session, _ = unix.Getsid(0) // of ourselves: it can't fail
		f.adopts = becomeSubreaper()
		shed()
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owners++; f.owners == 1 && f.adopts {
		settleAside()
		f.stop = make(chan struct{})
		go f.watch(f.stop) // owned by the family; ends when the last Owner leaves
	}
}

func (f *family) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owners--; f.owners == 0 && f.adopts {
		close(f.stop)
		clearAside()
	}
}

// look takes in the orphans that have come to us and reaps those that have ended. It costs a few dozen microseconds
// where there are none.
func (f *family) look() {
	f.looking.Lock()
	defer f.looking.Unlock()
	for again := true; again; {
		again = f.lookOnce()
	}
}

// lookOnce is a single look. It tells whether another one must follow, see retire.
func (f *family) lookOnce() (again bool) {
	f.step.Lock()
	pids := ownChildren()
	f.mu.Lock()
	pids = slices.DeleteFunc(pids, func(pid int) bool { return f.started[pid] })
	var ended []*Handle // their children had come to us when we looked
	for h := range f.handles {
		if h.gone {
			ended = append(ended, h)
		}
	}
	f.mu.Unlock()
	f.step.Unlock()

	for _, pid := range pids { // all, before any of them is reaped: they tell of one another
		f.adopt(pid)
	}
	for _, pid := range pids {
		f.bury(pid)
	}
	return f.retire(ended)
}

// adopt takes in one child that we did not start, or looks how it is now.
func (f *family) adopt(pid int) {
	e, ok := inspect(pid)
	if !ok || e.session == f.session {
		return
	}
	f.mu.Lock()
	o := f.orphans[pid]
	if o != nil {
		o.entry = e
	}
	f.mu.Unlock()
	if o != nil {
		f.reclaim(o)
		return
	}
	o = &orphan{entry: e}
	o.of, o.may = f.attribute(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orphans[pid] = o
	if !e.ended() {
		for _, owner := range o.owners() {
			owner.guard.add(e.Process)
		}
	}
}

// reclaim looks again whose an orphan is that couldn't be told: one that came to us in the middle of an exec had no
// environment, and none of its files may have told either. That there is one job left that it may be from tells nothing.
func (f *family) reclaim(o *orphan) {
	if o.of != nil || o.ended() { // it is changed by looks only
		return
	}
	of := f.evident(o.entry, o.may)
	f.mu.Lock()
	defer f.mu.Unlock()
	if of != nil && f.handles[of] {
		o.of, o.may = of, nil
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
		return
	}
	o.of.buried++
	o.of.unsure = true
	if h := o.of; h.gone && !h.climbed && err == nil && status.Signaled() && status.Signal() == syscall.SIGHUP {
		h.hungUp = append(h.hungUp, o.Process)
	}
}

// retire drops those of ended leaders who have left nothing. Of one whose orphan has just been buried that is not known:
// children that it left come to us at its end, after we had looked which are ours, and are told by h. Another look tells.
func (f *family) retire(ended []*Handle) (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.orphans {
		if i := slices.Index(ended, o.of); i >= 0 {
			ended = slices.Delete(ended, i, i+1)
		}
	}
	for _, h := range ended {
		switch {
		case !f.handles[h] || lingers(h.self.PID):
		case h.unsure:
			h.unsure, again = false, true
		default:
			delete(f.handles, h)
			close(h.cleared)
			h.owner.guard.forget(h.self)
			for _, leader := range h.sessions {
				h.owner.guard.forget(leader)
			}
		}
	}
	return again
}

// attribute finds out whose an orphan is: by what is evident, and if nothing is because there was only one it can be
// from. If it can't be told it returns whose it may be.
func (f *family) attribute(e entry) (of *Handle, may []*Handle) {
	f.mu.Lock()
	for h := range f.handles {
		if h.self.Start <= e.Start {
			may = append(may, h)
		}
	}
	f.mu.Unlock()
	// The newest first: a number or terminal that two have had is the newer one's.
	slices.SortFunc(may, func(a, b *Handle) int { return int(b.number) - int(a.number) })
	if of = f.evident(e, may); of != nil {
		return of, nil
	}
	if len(may) == 1 {
		return may[0], nil
	}
	return nil, may
}

// evident tells which of those it may be from a process belongs to: by ancestry seen earlier, session, mark, or open
// files; nil if none of these does.
func (f *family) evident(e entry, may []*Handle) *Handle {
	f.mu.Lock()
	i := slices.IndexFunc(may, func(h *Handle) bool { return f.knows(h, e) })
	f.mu.Unlock()
	if i >= 0 {
		return may[i]
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

// knows tells whether e was seen in the tree of h, or is in a session of it. The caller holds mu.
func (f *family) knows(h *Handle, e entry) bool {
	if e.session == h.self.PID {
		return true
	}
	if old, ok := h.seen[e.PID]; ok && old.Start == e.Start {
		return true
	}
	for _, old := range h.seen {
		if old.session == e.session {
			return true
		}
	}
	for _, o := range f.orphans {
		if o.of == h && o.session == e.session {
			return true
		}
	}
	return false
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

// watch looks after our children whenever one has died, and once a second: nothing tells of an orphan that comes to us,
// and the guard must hear of it. Several that die together cost one look.
func (f *family) watch(stop <-chan struct{}) {
	dying, end := childSignals()
	defer end()
	timer := time.NewTimer(0)
	<-timer.C
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	for {
		select {
		case <-dying:
		case <-tick.C:
			if !f.busy() {
				continue
			}
			f.glance()
		case <-stop:
			return
		}
		timer.Reset(lookDelay)
		select {
		case <-timer.C:
			f.look()
		case <-stop:
			timer.Stop()
			return
		}
	}
}

const (
	// lookDelay is how long a dead orphan may lie before it is reaped. What must know at once, looks itself.
	lookDelay = 20 * time.Millisecond

	// lookPeriod is how long an orphan may live before the guard hears of it.
	lookPeriod = time.Second

	// glances is how many trees are looked at in each period: an idle job must cost next to nothing.
	glances = 16
)

// glance looks at some trees, those next in turn, so that the guard hears also of a session in the tree of one at which
// nobody else looks: an idle worker, a command on pipes.
func (f *family) glance() {
	f.mu.Lock()
	var next []*Handle
	for h := range f.handles {
		if !h.gone {
			next = append(next, h)
		}
	}
	turn := func(h *Handle) uint64 { return h.number - f.glanced - 1 } // those before it come last
	slices.SortFunc(next, func(a, b *Handle) int { return cmp.Compare(turn(a), turn(b)) })
	next = next[:min(glances, len(next))]
	if len(next) > 0 {
		f.glanced = next[len(next)-1].number
	}
	f.mu.Unlock()
	for _, h := range next {
		h.members()
	}
}

// busy tells whether there is anything that orphans can come from.
func (f *family) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.handles) > 0
}
