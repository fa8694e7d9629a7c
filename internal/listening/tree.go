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

	"asyncrepl/internal/procfs"
)

// pollTime is the time from one poll to the next.
const pollTime = 100 * time.Millisecond

// A Port is a TCP address on which a process listens.
type Port struct {
	Addr    netip.AddrPort
	Process procfs.Process // that has the socket open; of several the first of its tree
}

// A Tree is a tree of processes whose ports are found for one job at a time.
type Tree struct {
	list func() ([]procfs.Process, error)

	// Used by the poller's goroutine.
	checked uint64              // the poll up to which the descriptors of the tree are known
	found   map[uint64]foundFor // by the inode of the socket

	// Guarded by all.mu.
	job    int // counts the jobs
	report func([]Port)
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

// Follow begins a job: from now on report is called with all ports that have been opened since, at
// each change. It is called in the poller's goroutine, and can be called once more after Rest or
// Close.
func (t *Tree) Follow(report func([]Port)) {
	all.mu.Lock()
	defer all.mu.Unlock()
	t.job++
	t.report = report
	all.trees[t] = true
	if !all.running {
		all.running = true
		go all.run() // the process's; ends at the first poll that finds no tree
	}
}

// Rest ends the job. What it opened until the next poll is not taken for a later job's.
func (t *Tree) Rest() {
	all.mu.Lock()
	defer all.mu.Unlock()
	t.report = nil
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

// A poller polls for all trees. It runs while there is one.
type poller struct {
	mu      sync.Mutex
	trees   map[*Tree]bool
	running bool

	// Used by the poller's goroutine, of which there is one at a time.
	polls  uint64                    // counts polls
	newest uint64                    // the last poll that found a new socket
	known  map[uint64]netip.AddrPort // the table at the last poll
	rested time.Time                 // the earliest time of the next search
}

func (p *poller) run() {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	p.known = nil // sockets that came and went meanwhile can have had the same inodes
	for range tick.C {
		if !p.poll() {
			return
		}
	}
}

// A turn is a tree with its job, as they were when a poll began.
type turn struct {
	*Tree
	job    int          // 0: none
	report func([]Port) // nil: no job
}

// poll reads the table once and brings every tree up to it. It returns false, and the poller has
// stopped, if no tree is left.
func (p *poller) poll() bool {
	turns := p.turns()
	if table, err := listeners(); err == nil {
		p.polls++
		p.note(table)
		begin := time.Now()
		search := begin.After(p.rested)
		for _, t := range turns {
			p.update(t, table, search)
		}
		if search { // searches take at most a tenth of a processor
			p.rested = begin.Add(10 * time.Since(begin))
		}
	}
	return p.drop(turns)
}

// note records the sockets of the table, and whether one of them is new.
func (p *poller) note(table map[uint64]netip.AddrPort) {
	for inode := range table {
		if _, ok := p.known[inode]; !ok {
			p.newest = p.polls
			break
		}
	}
	p.known = table
}

func (p *poller) turns() (turns []turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.trees {
		now := turn{Tree: t, report: t.report}
		if t.report != nil {
			now.job = t.job
		}
		turns = append(turns, now)
	}
	return turns
}

// drop forgets the trees that had no job during the poll and have none now.
func (p *poller) drop(turns []turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range turns {
		if t.report == nil && t.Tree.report == nil {
			delete(p.trees, t.Tree)
		}
	}
	p.running = len(p.trees) > 0
	return p.running
}

// update brings what is known of a tree up to the table, and reports a change. It searches the
// descriptors of the tree if search is set and the table has sockets that it was not searched for.
func (p *poller) update(t turn, table map[uint64]netip.AddrPort, search bool) {
	changed := false
	for inode, f := range t.found {
		if _, ok := table[inode]; !ok {
			delete(t.found, inode)
			changed = changed || f.job == t.job
		}
	}
	if search && t.checked < p.newest {
		found, err := t.search(table)
		for inode, port := range found {
			if _, ok := t.found[inode]; !ok {
				t.found[inode] = foundFor{port, t.job}
				changed = true
			}
		}
		if err == nil {
			t.checked = p.polls
		}
	}
	if changed && t.report != nil {
		t.report(t.ports())
	}
}

// ports returns what was found for the job of the turn.
func (t turn) ports() (ports []Port) {
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
		if !errors.Is(readErr, procfs.ErrGone) && !errors.Is(readErr, fs.ErrPermission) { // neither changes
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
