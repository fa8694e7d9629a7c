package jobs

import "io"

// A spill is the file to which a log's sealed segments go.
type spill interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// An archive holds the sealed segments of a log, named by their number. The log
// guards it with its lock, but for reads of the spill file.
//
// A segment that is in none of lost and held is in its slot of the file.
type archive struct {
	size int                   // bytes in a segment
	head int64                 // slots for the first segments
	ring int64                 // slots that all later ones share
	hold int                   // segments kept in memory at most
	open func() (spill, error) // nil: memory only

	file   spill // nil before the first need
	slots  []slot
	held   []heldSegment // oldest first
	lost   extents
	gone   Streams // of the segments in lost
	all    Streams // of all segments ever
	failed bool    // the file could not be opened, written or read
}

// A slot says of the segment in it what is not in the file: how long its labels
// there are, and the stream of its last run.
type slot struct {
	labels int32
	last   Stream
	set    Streams
}

type heldSegment struct {
	number int64
	segment
}

// slot returns the index of the slot for segment n.
func (a *archive) slot(n int64) int64 {
	if n < a.head {
		return n
	}
	return a.head + (n-a.head)%a.ring
}

// at returns where slot i begins in the file: behind the data there is room for
// labels that are as long, a hole in the file where they are shorter.
func (a *archive) at(i int64) int64 { return i * 2 * int64(a.size) }

// put takes in segment n, the one after the last it took, and returns an empty
// one to go on with.
func (a *archive) put(n int64, g segment) segment {
	var spare segment
	if old := n - a.ring; old >= a.head {
		spare = a.drop(old)
	}
	a.all |= g.set
	i := a.slot(n)
	if i == int64(len(a.slots)) {
		a.slots = append(a.slots, slot{})
	}
	if a.write(i, g) {
		return g.emptied()
	}
	a.held = append(a.held, heldSegment{n, g})
	if len(a.held) > a.hold {
		spare = a.drop(a.yields())
	}
	return spare
}

// yields returns the number of the held segment that has to go first: the oldest
// that is not the beginning of the log, which tells most of what came after.
func (a *archive) yields() int64 {
	if a.held[0].number == 0 {
		return a.held[1].number
	}
	return a.held[0].number
}

// drop forgets segment n and returns its memory, if it had any.
func (a *archive) drop(n int64) segment {
	a.lost.add(n)
	for i := range a.held {
		if a.held[i].number == n {
			g := a.held[i].segment
			a.gone |= g.set
			a.held = append(a.held[:i], a.held[i+1:]...)
			return g.emptied()
		}
	}
	a.gone |= a.slots[a.slot(n)].set
	return segment{}
}

// write puts g into slot i of the file and reports whether all of it is there.
func (a *archive) write(i int64, g segment) bool {
	if a.open == nil {
		return false
	}
	if a.file == nil {
		f, err := a.open()
		if err != nil {
			a.failed = true
			return false
		}
		a.file = f
	}
	if _, err := a.file.WriteAt(g.data, a.at(i)); err != nil {
		a.failed = true
		return false
	}
	if len(g.runs) > 0 {
		if _, err := a.file.WriteAt(g.runs, a.at(i)+int64(a.size)); err != nil {
			a.failed = true
			return false
		}
	}
	a.slots[i] = slot{int32(len(g.runs)), g.last, g.set}
	return true
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
	if !a.lost.has(n) { // else it was dropped, or the file closed, in the meantime
		a.failed = true
		a.lost.add(n)
		a.gone |= a.slots[a.slot(n)].set
	}
}

// A place says where in the file a segment is.
type place struct {
	file spill
	at   int64
	size int
	slot
}

// place returns where segment n is, which is neither lost nor in memory.
func (a *archive) place(n int64) place {
	i := a.slot(n)
	return place{a.file, a.at(i), a.size, a.slots[i]}
}

// read fills b with what is at off in the segment, and returns its labels. It is
// called without the log's lock, so the caller looks afterwards whether the slot
// still holds the same segment.
func (p place) read(b []byte, off int) (runs []byte, err error) {
	if _, err := p.file.ReadAt(b, p.at+int64(off)); err != nil {
		return nil, err
	}
	if p.labels == 0 {
		return nil, nil
	}
	runs = make([]byte, p.labels)
	_, err = p.file.ReadAt(runs, p.at+int64(p.size))
	return runs, err
}

// close forgets every segment of the sealed ones there are.
func (a *archive) close(sealed int64) {
	if a.file != nil {
		a.file.Close() // nobody can read what it held, so nobody misses it
		a.file = nil
	}
	a.held, a.slots, a.lost, a.gone = nil, nil, nil, a.all
	if sealed > 0 {
		a.lost = extents{{0, sealed}}
	}
}
