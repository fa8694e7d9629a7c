//go:build unix

package process

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A family is everything that descends from this process. There is one, whatever the number of Owners.
type family struct {
	once    sync.Once // with the first Owner
	session int       // our own: what lives in it is nobody's orphan
	adopts  bool      // orphans come to us

	step    sync.RWMutex // read: start and entry, reap and leave; write: the look at our children
	looking sync.Mutex   // held during a look; orphans are reaped by a look only
	late    []*orphan    // of those that can't be told, what the last look buried; looks only
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

// lookOnce is a single look. It tells whether another one must follow, for what it buried may have left something, see
// retire.
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

	f.adopt(pids) // all, before any of them is reaped: they tell of one another
	f.remember()
	f.late = nil // what they left is ours by now
	for _, pid := range pids {
		f.bury(pid)
	}
	return f.retire(ended) || len(f.late) > 0
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
