package jobs

// An archive holds the sealed segments of a log, named by their number. The log
// guards it with its lock, but for reads of the spill.
//
// A segment that is in none of lost and held is in the spill.
type archive struct {
	size  int    // bytes in a segment
	head  int64  // places for the first segments
	ring  int64  // places that all later ones share
	hold  int    // segments kept in memory at most
	spill *spill // nil: memory only

	lease lease
	slots []slot // by place
	held  []heldSegment
	lost  extents
	loss  Loss
	gone  Streams // of the segments in lost
	all   Streams // of all segments ever
}

// A slot says of the segment in a place what is not on disk: the slot of the
// spill, how long the labels there are, and the stream of its last run.
type slot struct {
	at     int64 // -1: there is none yet
	labels int32
	last   Stream
	set    Streams
}

// A heldSegment is in memory, oldest first.
type heldSegment struct {
	number int64
	why    cause // it is not on disk
	segment
}

// A Loss counts the bytes of a log that are gone, by what took them.
type Loss struct {
	Cap   int64 // the limit of what is kept of one job
	Disk  int64 // a disk that could not be written to, or not be read
	State int64 // the limit of what is kept on disk of all jobs
}

// A cause is one field of a [Loss].
type cause func(*Loss) *int64

func byCap(l *Loss) *int64   { return &l.Cap }
func byDisk(l *Loss) *int64  { return &l.Disk }
func byState(l *Loss) *int64 { return &l.State }

// lose takes note that segment n, of those streams, is gone.
func (a *archive) lose(n int64, set Streams, why cause) {
	a.lost.add(n)
	a.gone |= set
	*why(&a.loss) += int64(a.size)
}

// place returns where segment n has its place.
func (a *archive) place(n int64) int64 {
	if n < a.head {
		return n
	}
	return a.head + (n-a.head)%a.ring
}

// put takes in segment n, the one after the last it took, and returns an empty
// one to go on with.
func (a *archive) put(n int64, g segment) segment {
	a.settle(n)
	var spare segment
	if old := n - a.ring; old >= a.head {
		spare = a.drop(old, byCap)
	}
	a.all |= g.set
	if i := a.place(n); i == int64(len(a.slots)) {
		a.slots = append(a.slots, slot{at: -1})
	}
	why := a.write(n, g)
	if why == nil {
		a.catchUp()
		return g.emptied()
	}
	a.held = append(a.held, heldSegment{n, why, g})
	if len(a.held) > a.hold {
		h := a.yields()
		spare = a.drop(h.number, h.why)
	}
	return spare
}

// yields returns the held segment that has to go first: the oldest that is not
// the beginning of the log, which tells most of what came after.
func (a *archive) yields() heldSegment {
	if a.held[0].number == 0 {
		return a.held[1]
	}
	return a.held[0]
}

// drop forgets segment n, unless it is gone already, and returns its memory, if
// it had any.
func (a *archive) drop(n int64, why cause) segment {
	for i := range a.held {
		if a.held[i].number == n {
			g := a.held[i].segment
			a.held = append(a.held[:i], a.held[i+1:]...)
			a.lose(n, g.set, why)
			return g.emptied()
		}
	}
	if !a.lost.has(n) {
		a.lose(n, a.slots[a.place(n)].set, why)
	}
	return segment{}
}

// write puts segment n where it belongs in the spill. It returns nil if all of
// it is there.
func (a *archive) write(n int64, g segment) cause {
	if a.spill == nil {
		return byCap
	}
	s := &a.slots[a.place(n)]
	at, err := a.spill.put(&a.lease, s.at, g)
	if err == errRevoked {
		a.settle(n)
		at, err = a.spill.put(&a.lease, s.at, g) // it has no slot that could be revoked
	}
	s.at = at
	switch err {
	case nil:
		s.labels, s.last, s.set = int32(len(g.runs)), g.last, g.set
		return nil
	case errLimit:
		return byState
	}
	return byDisk
}

// catchUp writes what is in memory only, now that the disk takes something
// again.
func (a *archive) catchUp() {
	for len(a.held) > 0 && a.write(a.held[0].number, a.held[0].segment) == nil {
		a.held = a.held[1:]
	}
	if len(a.held) == 0 {
		a.held = nil
	}
}

// settle takes note of what the spill took back, of all segments before the one
// of number end.
func (a *archive) settle(end int64) {
	if a.spill == nil || !a.lease.revoked.Load() {
		return
	}
	for n := range end {
		if _, held := a.find(n); !held && !a.lost.has(n) {
			a.lose(n, a.slots[a.place(n)].set, byState)
		}
	}
	for i := range a.slots {
		a.slots[i] = slot{at: -1}
	}
	a.lease.revoked.Store(false)
}

// find returns segment n if it is in memory.
func (a *archive) find(n int64) (segment, bool) {
	for _, h := range a.held {
		if h.number == n {
			return h.segment, true
		}
	}
	return segment{}, false
}

// spoilt takes note that segment n could not be read back.
func (a *archive) spoilt(n int64) {
	if !a.lost.has(n) { // else it went in the meantime
		a.lose(n, a.slots[a.place(n)].set, byDisk)
	}
}

// end tells that the log's job has ended.
func (a *archive) end() {
	if a.spill != nil {
		a.spill.end(&a.lease)
	}
}

// close forgets every segment of the sealed ones there are.
func (a *archive) close(sealed int64) {
	if a.spill != nil {
		a.spill.release(&a.lease)
	}
	a.held, a.slots, a.lost, a.gone = nil, nil, nil, a.all
	if sealed > 0 {
		a.lost = extents{{0, sealed}}
	}
}
