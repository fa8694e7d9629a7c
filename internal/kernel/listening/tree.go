//go:build unix

package listening

import (
	"cmp"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"sync"
	"time"

	"asyncrepl/internal/kernel/procfs"
)

// The schedule. Polls are frequent while a job is young, because most servers listen soon, and the
// call that started one waits for that. They are rare afterwards, because waking up costs more than
// the poll.
const (
	pollTime  = 100 * time.Millisecond // the time between two polls
	restTime  = time.Second            // the time between two polls if no job is young
	youngTime = 5 * time.Second
)

// A Port is a TCP address on which a process listens.
type Port struct {
	Addr    netip.AddrPort
	Process procfs.Process // the first process of its tree that has the socket open
}

// A Tree is a tree of processes. Its ports are found for one job at a time.
type Tree struct {
	list func() ([]procfs.Process, error)

	// Used by the poller's goroutine.
	checked uint64              // the poll up to which the descriptors of the tree are known
	found   map[uint64]foundFor // the key is the inode of the socket

	// Guarded by all.mu.
	job     int // counts the jobs
	report  func([]Port)
	earlier map[uint64]netip.AddrPort // the table before the job, unless a poll has come since
}

// A foundFor is a port and the job of its tree for which it was found, 0 if none ran.
type foundFor struct {
	Port
	job int
}

// NewTree returns the Tree of the processes that list returns, parents before their children. After
// an error, some may be missing.
func NewTree(list func() ([]procfs.Process, error)) *Tree {
	return &Tree{list: list, found: make(map[uint64]foundFor)}
}

// Follow begins a job: from now on report is called at each change, with all ports that the job
// has opened. The poller's goroutine calls it, even once more after Rest or Close. opened says that
// processes of the tree can have opened ports since the last Follow, which are not the job's.
func (t *Tree) Follow(report func([]Port), opened bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	switch {
	case !all.due && !all.polling: // a poll has come since
		t.earlier = nil
	case opened:
		t.earlier, _ = listeners() // an error: the last ports of the job before count as this one's
	}
	t.job++
	t.report = report
	all.trees[t], all.due, all.youngUntil = true, true, time.Now().Add(youngTime)
	switch {
	case all.timer == nil:
		all.timer, all.resting = time.NewTimer(pollTime), false
		go all.run(all.timer) // the process's; ends at the first poll that finds no tree
	case all.resting:
		all.resting = false
		all.timer.Reset(pollTime)
	}
}

// Rest ends the job. A port that it has opened just before does not count as a later job's.
func (t *Tree) Rest() {
	all.mu.Lock()
	defer all.mu.Unlock()
	t.report, all.due = nil, true
}

// Close ends the job and forgets the tree.
func (t *Tree) Close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	t.report = nil
	delete(all.trees, t)
}

// all is the one poller of the process.
var all = poller{trees: make(map[*Tree]bool)}

// A poller polls for all trees. It runs while there is one. As long as no socket comes or goes and
// no job begins or ends, a poll touches no tree: with hundreds of idle jobs that would cost more
// than reading the table.
type poller struct {
	mu         sync.Mutex
	trees      map[*Tree]bool
	due        bool        // the next poll must update the trees even if the table is the same
	polling    bool        // a poll updates the trees, but not those whose next job has begun by then
	timer      *time.Timer // starts the next poll; nil: the poller does not run
	resting    bool        // the next poll comes after restTime, not after pollTime
	youngUntil time.Time   // a job is young until then

	// Used by the poller's goroutine, of which there is one at a time.
	polls      uint64                    // counts the polls that could read the table
	newest     uint64                    // the last poll that found a new socket
	known      map[uint64]netip.AddrPort // the table at the last poll
	nextSearch time.Time                 // the earliest time of the next search
}

func (p *poller) run(timer *time.Timer) {
	p.known = nil // sockets that came and went meanwhile can have had the same inodes
	for range timer.C {
		p.poll()
		if !p.schedule() {
			return
		}
	}
}

// schedule sets the timer for the next poll. If no tree is left, it marks the poller as stopped and
// returns false.
func (p *poller) schedule() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.trees) == 0 {
		p.timer = nil
		return false
	}
	d := pollTime
	if p.resting = time.Now().After(p.youngUntil); p.resting {
		d = restTime
	}
	p.timer.Reset(d)
	return true
}

// A snapshot is a tree with its job, as they were when a poll began.
type snapshot struct {
	*Tree
	last    int          // the newest job
	job     int          // the same, while it runs; else 0
	report  func([]Port) // nil: no job
	earlier map[uint64]netip.AddrPort
}

// poll reads the table once and updates every tree from it.
func (p *poller) poll() {
	table, err := listeners()
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		p.forgetAll()
		return
	case err != nil: // the next poll tries again
		p.drop(p.snapshots(false))
		p.setDue()
		return
	}
	changed := p.note(table)
	begin := time.Now()
	search := begin.After(p.nextSearch)
	snapshots := p.snapshots(changed)
	late := false
	for _, t := range snapshots {
		p.update(t, table, search)
		late = late || t.checked < p.newest
	}
	if search { // searches take at most a tenth of a processor
		p.nextSearch = begin.Add(10 * time.Since(begin))
	}
	if late {
		p.setDue()
	}
	p.drop(snapshots)
}

// forgetAll forgets all trees: this system shows no listeners.
func (p *poller) forgetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.trees)
}

// note records the sockets of the table, and reports whether one has come or gone.
func (p *poller) note(table map[uint64]netip.AddrPort) (changed bool) {
	p.polls++
	changed = len(table) != len(p.known)
	for inode := range table {
		if _, ok := p.known[inode]; !ok {
			p.newest, changed = p.polls, true
			break
		}
	}
	p.known = table
	return changed
}

func (p *poller) setDue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = true
}

// snapshots returns the snapshots of all trees, or none if nothing has changed and none is due.
func (p *poller) snapshots(changed bool) (snapshots []snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !changed && !p.due {
		return nil
	}
	p.due, p.polling = false, true
	for t := range p.trees {
		now := snapshot{Tree: t, last: t.job, report: t.report, earlier: t.earlier}
		if t.report != nil {
			now.job = t.job
		}
		snapshots = append(snapshots, now)
	}
	return snapshots
}

// drop forgets the trees that had no job during the poll and have none now.
func (p *poller) drop(snapshots []snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polling = false
	for _, t := range snapshots {
		if t.report == nil && t.Tree.report == nil {
			delete(p.trees, t.Tree)
		}
	}
}

// update updates what is known of a tree from the table, and reports a change. If search is set and
// a socket is newer than the tree's last search, update searches the tree's descriptors.
func (p *poller) update(t snapshot, table map[uint64]netip.AddrPort, search bool) {
	changed := false
	for inode, f := range t.found {
		if _, ok := table[inode]; !ok {
			delete(t.found, inode)
			changed = changed || f.job == t.job
		}
	}
	if search && t.checked < p.newest {
		found, err := t.search(table)
		if p.begun(t) { // the new job can have opened what was found; the next poll searches again
			return
		}
		for inode, port := range found {
			if _, ok := t.found[inode]; ok {
				continue
			}
			if _, ok := t.earlier[inode]; ok {
				t.found[inode] = foundFor{Port: port}
				continue
			}
			t.found[inode] = foundFor{port, t.job}
			changed = true
		}
		if err == nil {
			t.checked = p.polls
		}
	}
	if changed && t.report != nil {
		t.report(t.ports())
	}
}

// begun reports whether a job of the tree has begun since the poll did.
func (p *poller) begun(t snapshot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.Tree.job != t.last
}

// ports returns what was found for the job of the snapshot.
func (t snapshot) ports() (ports []Port) {
	for _, f := range t.found {
		if f.job == t.job {
			ports = append(ports, f.Port)
		}
	}
	slices.SortFunc(ports, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Addr.Port(), b.Addr.Port()), a.Addr.Compare(b.Addr))
	})
	return ports
}

// search returns the sockets of the table that a process of the tree has open.
func (t *Tree) search(table map[uint64]netip.AddrPort) (map[uint64]Port, error) {
	found := make(map[uint64]Port)
	ps, err := t.list()
	for _, p := range ps {
		inodes, readErr := sockets(p.PID)
		// Neither of these two errors changes.
		if !errors.Is(readErr, procfs.ErrGone) && !errors.Is(readErr, fs.ErrPermission) {
			err = cmp.Or(err, readErr)
		}
		for _, inode := range inodes {
			addr, listens := table[inode]
			if _, known := found[inode]; listens && !known {
				found[inode] = Port{addr, p}
			}
		}
	}
	return found, err
}
