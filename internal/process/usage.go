//go:build unix

package process

import (
	"errors"
	"os"
	"slices"
	"time"

	"asyncrepl/internal/kernel/procfs"
)

// Usage is the resources that processes use. A zero means that the system does not report it.
type Usage struct {
	CPU                time.Duration // the time of children that were waited for counts, too
	Memory             int64         // bytes resident; shared memory counts for each process
	Processes, Threads int
}

// Usage returns the resources that the tree of h uses. The error is procfs.ErrGone once the leader
// has been reaped, and errors.ErrUnsupported if the system does not report them.
func (h *Handle) Usage() (Usage, error) {
	reaper.mu.Lock()
	reaped := h.reaped
	reaper.mu.Unlock()
	if reaped {
		return Usage{}, procfs.ErrGone
	}
	es, err := h.members()
	u := sum(es)
	if err == nil && u.Memory == 0 {
		err = errors.ErrUnsupported
	}
	return u, err
}

// usageSpan is how long Busiest watches: long enough for the resolution of the kernel's clock,
// short enough for a call that should be answered at once.
const usageSpan = 20 * time.Millisecond

// Busiest returns the process of the tree that uses the most CPU time now, and its share of one CPU
// in percent. It takes 20 ms. The error is procfs.ErrGone if no process of the tree is left, and
// errors.ErrUnsupported if the system does not report CPU time.
func (h *Handle) Busiest() (busiest procfs.Process, percent float64, err error) {
	ps, err := h.Tree()
	if len(ps) == 0 && err == nil {
		err = procfs.ErrGone
	}
	begin := time.Now()
	before := make(map[procfs.Process]time.Duration)
	for _, p := range ps {
		used, clockErr := procfs.CPUTime(p.PID)
		if clockErr != nil {
			err = clockErr
			continue
		}
		before[p] = used
	}
	if len(before) == 0 {
		return busiest, 0, err
	}
	time.Sleep(usageSpan)
	for p, then := range before {
		used, clockErr := procfs.CPUTime(p.PID)
		if clockErr != nil {
			err = clockErr
			continue
		}
		// A negative share: the pid belongs to a later process.
		if share := 100 * float64(used-then) / float64(time.Since(begin)); share >= 0 && (busiest.PID == 0 || share > percent) {
			busiest, percent = p, share
		}
	}
	if busiest.PID != 0 {
		err = nil
	}
	return busiest, percent, err
}

// Stopped returns the processes of the tree that a signal has stopped, as ^Z does, parents before
// their children. It leaves out processes that a debugger holds. If the error is not nil, processes
// may be missing.
func (h *Handle) Stopped() ([]procfs.Stat, error) {
	es, err := h.members()
	return slices.DeleteFunc(es, func(e procfs.Stat) bool { return e.State != 'T' }), err
}

// A Census is the state of an Owner.
type Census struct {
	Adopts  bool             // orphans of our descendants come to us
	Guard   int              // the pid of the guard; 0 before the first start, and while it is dead
	Started bool             // this Owner has started a process, or tried to, and a guard with it
	Self    int64            // memory of this program: bytes resident
	Trees   Usage            // the sum of all trees of this Owner, without guards
	Orphans []procfs.Process // unattributed orphans that no job of another Owner can have started
}

// Census returns the state of o.
func (o *Owner) Census() Census {
	c := Census{Guard: o.guard.pid(), Started: o.guard.started()}
	own, _ := procfs.Inspect(os.Getpid())
	c.Self = own.Memory
	reaper.scan() // an error: the orphans are those known before
	reaper.mu.Lock()
	c.Adopts = reaper.adopts
	var roots []procfs.Process
	for h := range reaper.handles {
		if h.owner == o && !h.reaped {
			roots = append(roots, h.self)
		}
	}
	for _, orphan := range reaper.orphans {
		if orphan.Ended() || !orphan.onlyOf(o, reaper.owners) {
			continue
		}
		roots = append(roots, orphan.Process)
		if orphan.handle == nil {
			c.Orphans = append(c.Orphans, orphan.Process)
		}
	}
	reaper.mu.Unlock()
	slices.SortFunc(c.Orphans, func(a, b procfs.Process) int { return a.PID - b.PID })
	es, _ := walk(0, roots)
	c.Trees = sum(es)
	return c
}

// sum returns the resources that the living processes of es use.
func sum(es []procfs.Stat) (u Usage) {
	for _, e := range es {
		if e.Ended() {
			continue
		}
		u.Processes, u.Threads = u.Processes+1, u.Threads+e.Threads
		u.CPU += e.CPU
		u.Memory += e.Memory
	}
	return u
}
