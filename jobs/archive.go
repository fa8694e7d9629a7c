package jobs

import "slices"

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

	lease    lease
	seen     int64  // revocations of the lease that were taken note of
	slots    []slot // by place
	held     []heldSegment
	behind   int   // of those held: to be written, and not tried yet
	inFlight int64 // the one that is being written; none: none is
	lost     extents
	loss     Loss
	gone     Streams // of the segments in lost
	all      Streams // of all segments ever
}

// none is the number of no segment.
const none = -1

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
	why    cause // the disk did not take it; nil: it was not tried
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
// one to go on with. Where there is a spill, the segment is to be written.
func (a *archive) put(n int64, g segment) (spare segment) {
	a.settle(n)
	if old := n - a.ring; old >= a.head {
		spare = a.drop(old, byCap)
	}
	a.all |= g.set
	if i := a.place(n); i == int64(len(a.slots)) {
		a.slots = append(a.slots, slot{at: -1})
	}
	a.held = append(a.held, heldSegment{number: n, segment: g})
	if a.spill == nil {
		return spare
	}
	a.behind++
	a.recycle(spare)
	if b, ok := a.spill.buffers.Get().(*segment); ok {
		return *b
	}
	return segment{data: make([]byte, 0, a.size)}
}

// recycle keeps the memory of a segment for others.
func (a *archive) recycle(g segment) {
	if cap(g.data) > 0 && a.spill != nil {
		g = g.emptied()
		a.spill.buffers.Put(&g)
	}
}

// A writing is the write of one held segment.
type writing struct {
	heldSegment
	at      int64 // its slot, -1 for a new one
	revoked int64 // how often the lease was, to the log's knowledge
}

// next returns what is to be written next: the oldest segment that was not tried
// yet, and, where the disk takes something, those that were.
func (a *archive) next(works bool) (w writing, ok bool) {
	i := slices.IndexFunc(a.held, func(h heldSegment) bool { return h.why == nil })
	switch {
	case i < 0 && (!works || len(a.held) == 0):
		return writing{}, false
	case i < 0:
		i = 0
	}
	h := a.held[i]
	a.inFlight = h.number
	return writing{h, a.slots[a.place(h.number)].at, a.seen}, true
}

// waits reports whether a segment before the one of number end is still to be
// tried.
func (a *archive) waits(end int64) bool {
	return slices.ContainsFunc(a.held, func(h heldSegment) bool { return h.why == nil && h.number < end })
}

// wrote takes note of what became of a write, whose segment may have been dropped
// in the meantime, and reports whether the disk took it. end is the number of
// segments there are.
func (a *archive) wrote(w writing, at int64, err error, end int64) bool {
	a.inFlight = none
	a.settle(end)
	if w.revoked != a.seen {
		return true // what was written is gone already: once more
	}
	s := &a.slots[a.place(w.number)]
	s.at = at
	i := slices.IndexFunc(a.held, func(h heldSegment) bool { return h.number == w.number })
	switch {
	case i < 0:
		a.recycle(w.segment)
	case err == nil:
		s.labels, s.last, s.set = int32(len(w.runs)), w.last, w.set
		a.unhold(i)
		a.recycle(w.segment)
	default:
		a.refused(i, err)
	}
	return err == nil
}

// refused takes note that the disk did not take held segment i, and drops one if
// there are too many of them.
func (a *archive) refused(i int, err error) {
	if a.held[i].why == nil {
		a.behind--
	}
	a.held[i].why = byDisk
	if err == errLimit {
		a.held[i].why = byState
	}
	if len(a.held)-a.behind > a.hold {
		h := a.yields()
		a.recycle(a.drop(h.number, h.why))
	}
}

// yields returns the held segment that has to go first: the oldest that is not
// the beginning of the log, which tells most of what came after.
func (a *archive) yields() heldSegment {
	if a.held[0].number == 0 {
		return a.held[1]
	}
	return a.held[0]
}

// unhold takes segment i out of those held.
func (a *archive) unhold(i int) {
	if a.held[i].why == nil {
		a.behind--
	}
	if a.held = slices.Delete(a.held, i, i+1); len(a.held) == 0 {
		a.held = nil
	}
}

// drop forgets segment n, unless it is gone already, and returns its memory, if
// it had any that nobody reads.
func (a *archive) drop(n int64, why cause) segment {
	i := slices.IndexFunc(a.held, func(h heldSegment) bool { return h.number == n })
	if i < 0 {
		if !a.lost.has(n) {
			a.lose(n, a.slots[a.place(n)].set, why)
		}
		return segment{}
	}
	g := a.held[i].segment
	a.unhold(i)
	a.lose(n, g.set, why)
	if n == a.inFlight {
		return segment{}
	}
	return g.emptied()
}

// settle takes note of what the spill took back, of all segments before the one
// of number end.
func (a *archive) settle(end int64) {
	if a.spill == nil || a.lease.revoked.Load() == a.seen {
		return
	}
	a.seen = a.lease.revoked.Load()
	for n := range end {
		if _, held := a.find(n); !held && !a.lost.has(n) {
			a.lose(n, a.slots[a.place(n)].set, byState)
		}
	}
	for i := range a.slots {
		a.slots[i] = slot{at: -1}
	}
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
	a.held, a.behind, a.slots, a.lost, a.gone = nil, 0, nil, nil, a.all
	if sealed > 0 {
		a.lost = extents{{0, sealed}}
	}
}
