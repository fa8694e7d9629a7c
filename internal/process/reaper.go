//go:build unix

package process

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"asyncrepl/internal/process/child"

	"golang.org/x/sys/unix"
)

// reaper is the table of our children, the only one: the kernel gives orphans to the program,
// however many Owners there are.
var reaper = &processReaper{
	children: ownChildren,
	started:  make(map[int]bool),
	handles:  make(map[*Handle]bool),
	orphans:  make(map[int]*orphan),
	disowned: make(map[key]bool),
}

// A processReaper knows every descendant of this program. The waiter of a started child reaps it
// through the reaper; scans find and reap the orphans.
type processReaper struct {
	once    sync.Once // done with the first Owner
	cleaned sync.Once // done with the first start
	session int       // our own; a process in it is not an orphan of a job
	adopts  bool      // orphans come to us

	children func() ([]int, error) // ownChildren, except in tests

	steps      sync.RWMutex // read: start and enter a child, reap and leave; write: list children
	scanning   sync.Mutex   // held during a scan; only scans reap orphans
	joining    sync.Mutex   // guards next
	next       *sharedScan  // has not begun; nil: no caller waits for one
	justReaped []*orphan    // orphans of unknown jobs that the last scan reaped; for scans only
	reaped     atomic.Int64 // counts reaped orphans

	mu       sync.Mutex
	owners   int
	stop     chan struct{}    // ends watch; nil if it does not run
	started  map[int]bool     // the pids of the children that launch started and wait has not reaped
	handles  map[*Handle]bool // the handles whose tree is not proven gone
	orphans  map[int]*orphan  // the children that other processes started, by pid
	disowned map[key]bool     // processes that belong to no job
	count    uint64           // counts handles
	visited  uint64           // the number of the last handle whose tree scanSome scanned
}

// join adds an Owner.
func (r *processReaper) join() {
	r.once.Do(func() {
		r.session, _ = unix.Getsid(0) // no error: the process exists
		r.adopts = becomeSubreaper()
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners++
}

// leave removes an Owner. With the last one it stops watching.
func (r *processReaper) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners--; r.owners == 0 && r.stop != nil {
		close(r.stop)
		r.stop = nil
	}
}

// launch starts a process, enters it in the table of started children and calls enter, in one step:
// no scan can come between, and Shutdown can't set closed. It starts nothing if closed is set;
// closed can be nil. The first start begins to watch our children, so that a program that has
// started nothing does not pay for that.
func (r *processReaper) launch(closed *atomic.Bool, path string, argv []string, attr *os.ProcAttr, enter func(*child.Child)) error {
	r.cleaned.Do(resetInheritance)
	r.steps.RLock()
	defer r.steps.RUnlock()
	if closed != nil && closed.Load() {
		return ErrShutdown
	}
	c, err := child.Start(path, argv, attr)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started[c.Self().PID] = true
	if r.stop == nil && r.owners > 0 && r.adopts {
		r.stop = make(chan struct{})
		go r.watch(r.stop) // owned by the reaper; ends when the last Owner leaves
	}
	enter(c)
	return nil
}

// wait waits for the end of c, then reaps it, removes it from the table and calls leave, in one
// step. It is called once.
func (r *processReaper) wait(c *child.Child, leave func()) syscall.WaitStatus {
	c.AwaitEnd()
	r.steps.RLock()
	defer r.steps.RUnlock()
	status := c.Reap()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.started, c.Self().PID)
	leave()
	return status
}

const (
	// scanDelay is how long watch lets a dead orphan wait to be reaped. A caller that must know at
	// once scans itself.
	scanDelay = 20 * time.Millisecond

	// scanPeriod is how long an orphan can live before the guard learns of it. If we are killed
	// within that time, the guard may not find the orphan.
	scanPeriod = time.Second

	// treesPerPeriod is how many trees scanSome scans. It is small because an idle job must cost
	// next to nothing.
	treesPerPeriod = 16
)

// watch scans whenever a child has exited, and once a second, because the kernel does not announce
// the orphans that come to us and the guard must know them. Several children that exit together cost
// one scan.
func (r *processReaper) watch(stop <-chan struct{}) {
	dying, end := childSignals()
	defer end()
	timer := time.NewTimer(0)
	<-timer.C
	tick := time.NewTicker(scanPeriod)
	defer tick.Stop()
	for {
		select {
		case <-dying:
		case <-tick.C:
			if !r.busy() {
				continue
			}
			r.scanSome()
		case <-stop:
			return
		}
		timer.Reset(scanDelay)
		select {
		case <-timer.C:
			r.scan() // an error: the next second tries again
		case <-stop:
			timer.Stop()
			return
		}
	}
}

// scanSome scans the next few trees in turn, so that the guard learns of new sessions even in a
// tree that nothing else scans, such as the tree of an idle worker or of a command on pipes.
func (r *processReaper) scanSome() {
	r.mu.Lock()
	var next []*Handle
	for h := range r.handles {
		if !h.reaped {
			next = append(next, h)
		}
	}
	// Handles up to the last one visited wrap around and come last.
	turn := func(h *Handle) uint64 { return h.number - r.visited - 1 }
	slices.SortFunc(next, func(a, b *Handle) int { return cmp.Compare(turn(a), turn(b)) })
	next = next[:min(treesPerPeriod, len(next))]
	if len(next) > 0 {
		r.visited = next[len(next)-1].number
	}
	r.mu.Unlock()
	for _, h := range next {
		h.members()
	}
}

// busy reports whether there is a tree that orphans can come from.
func (r *processReaper) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.handles) > 0
}
