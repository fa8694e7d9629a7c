package output

import (
	"slices"
	"sync"
)

// A disk keeps sealed segments of one log outside of memory. It is all that the log knows of files.
type disk interface {
	// write stores segment n, in place of the segment that the shape of the log says it replaces.
	// The log writes one segment at a time, and does not hold its lock.
	write(n int64, g segment) error
	// read fills b with the bytes at off of segment n, and returns the encoded labels of the
	// segment, which are that long. If the segment was replaced or evicted meanwhile, the bytes may
	// belong to another segment, even of another log: the caller checks afterwards.
	read(n int64, off int, b []byte, labels int) ([]byte, error)
	// evictions returns how often everything stored was dropped to make room for other logs. An
	// eviction is counted before the space is used again.
	evictions() int64
	// finish allows evictions.
	finish()
	// discard drops everything stored.
	discard()
}

// sealed holds the sealed segments of a log, by number, and decides which of them are kept. The log
// guards it with its lock, which is released while the disk writes or reads.
//
// A segment is in memory (held), gone (lost), or else on disk.
type sealed struct {
	size    int        // bytes in a segment
	shape   shape      // says which segments are kept
	maxHeld int        // at most so many segments that the disk has refused stay in memory
	disk    disk       // nil: memory only
	buffers *sync.Pool // unused *segments, shared with other logs; nil without a disk

	held      []heldSegment // oldest first
	backlog   int           // how many of held were not tried to be written yet
	writing   int64         // the segment that is being written, or none
	onDisk    []labels      // the labels of the segment in each place
	evictions int64         // the evictions of the disk that applyEvictions has seen
	lost      extents
	loss      Loss
	gone      Streams // the streams of lost segments
	all       Streams // the streams of all segments ever
}

// none is the number of no segment.
const none = -1

// A heldSegment is in memory.
type heldSegment struct {
	number  int64
	refused cause // why the disk did not take it; notTried: it was not asked to yet
	segment
}

// labels describes the labels of a segment on disk: the length of the encoded runs, the stream of
// the last run, and the set of all streams.
type labels struct {
	length int32
	last   Stream
	set    Streams
}

// A cause of a lost segment is a field of [Loss].
type cause byte

const (
	notTried cause = iota // no cause, because the disk was not tried yet
	byCap
	byDisk
	byLimit
)

func (l *Loss) add(c cause, bytes int64) {
	switch c {
	case byCap:
		l.Cap += bytes
	case byDisk:
		l.Disk += bytes
	case byLimit:
		l.Limit += bytes
	}
}

// markLost records that segment n, which has those streams, is gone.
func (s *sealed) markLost(n int64, set Streams, why cause) {
	s.lost.add(n)
	s.gone |= set
	s.loss.add(why, int64(s.size))
}

// add takes segment n, the one after the last it took, and returns an empty segment. If there is a
// disk, segment n waits to be written.
func (s *sealed) add(n int64, g segment) (empty segment) {
	s.applyEvictions(n)
	if old := s.shape.replaced(n); old != none {
		empty = s.drop(old, byCap)
	}
	s.all |= g.set
	s.held = append(s.held, heldSegment{number: n, segment: g})
	if s.disk == nil {
		return empty
	}
	if s.shape.place(n) == int64(len(s.onDisk)) {
		s.onDisk = append(s.onDisk, labels{})
	}
	s.backlog++
	s.recycle(empty)
	if b, ok := s.buffers.Get().(*segment); ok {
		return *b
	}
	return segment{data: make([]byte, 0, s.size)}
}

// recycle keeps the memory of a segment for other segments.
func (s *sealed) recycle(g segment) {
	if cap(g.data) > 0 && s.buffers != nil {
		g = g.emptied()
		s.buffers.Put(&g)
	}
}

// A pendingWrite is a held segment that is being written.
type pendingWrite struct {
	heldSegment
	evictions int64 // sealed.evictions when the write began
}

// next returns the segment to write next: the oldest one that was not tried yet, and if there is
// none and the disk works, the oldest one that was.
func (s *sealed) next(works bool) (w pendingWrite, ok bool) {
	i := slices.IndexFunc(s.held, func(h heldSegment) bool { return h.refused == notTried })
	switch {
	case i < 0 && (!works || len(s.held) == 0):
		return pendingWrite{}, false
	case i < 0:
		i = 0
	}
	s.writing = s.held[i].number
	return pendingWrite{s.held[i], s.evictions}, true
}

// untried reports whether a segment before segment end has not been tried yet.
func (s *sealed) untried(end int64) bool {
	return slices.ContainsFunc(s.held, func(h heldSegment) bool { return h.refused == notTried && h.number < end })
}

// writeDone records the result of a write and reports whether the disk works. The segment may have
// been dropped meanwhile. count is the number of sealed segments.
func (s *sealed) writeDone(w pendingWrite, err error, count int64) bool {
	s.writing = none
	s.applyEvictions(count)
	if w.evictions != s.evictions {
		return true // it may have been evicted again: it is still held, and the next one to write
	}
	i := s.index(w.number)
	switch {
	case i < 0:
		s.recycle(w.segment)
	case err == nil:
		s.onDisk[s.shape.place(w.number)] = labels{int32(len(w.runs)), w.last, w.set}
		s.release(i)
		s.recycle(w.segment)
	default:
		s.refuse(i, err)
	}
	return err == nil
}

// refuse records that the disk did not take held segment i, and drops a segment if there are too
// many of them.
func (s *sealed) refuse(i int, err error) {
	if s.held[i].refused == notTried {
		s.backlog--
	}
	s.held[i].refused = byDisk
	if err == ErrLimit {
		s.held[i].refused = byLimit
	}
	if len(s.held)-s.backlog > s.maxHeld {
		h := s.evictionCandidate()
		s.recycle(s.drop(h.number, h.refused))
	}
}

// evictionCandidate returns the held segment to drop first: the oldest, except the beginning of the
// log, which explains most of what came after it.
func (s *sealed) evictionCandidate() heldSegment {
	if s.held[0].number == 0 {
		return s.held[1]
	}
	return s.held[0]
}

// release removes held segment i.
func (s *sealed) release(i int) {
	if s.held[i].refused == notTried {
		s.backlog--
	}
	if s.held = slices.Delete(s.held, i, i+1); len(s.held) == 0 {
		s.held = nil
	}
}

// drop makes segment n lost, unless it is already, and returns its memory emptied, if it had any
// that is not being written.
func (s *sealed) drop(n int64, why cause) segment {
	i := s.index(n)
	if i < 0 {
		if !s.lost.has(n) {
			s.markLost(n, s.onDisk[s.shape.place(n)].set, why)
		}
		return segment{}
	}
	g := s.held[i].segment
	s.release(i)
	s.markLost(n, g.set, why)
	if n == s.writing {
		return segment{}
	}
	return g.emptied()
}

// applyEvictions marks the segments lost that the disk has evicted. count is the number of sealed
// segments.
func (s *sealed) applyEvictions(count int64) {
	if s.disk == nil || s.disk.evictions() == s.evictions {
		return
	}
	s.evictions = s.disk.evictions()
	for n := range count {
		if _, held := s.find(n); !held && !s.lost.has(n) {
			s.markLost(n, s.onDisk[s.shape.place(n)].set, byLimit)
		}
	}
}

// index returns the index of segment n in held, or -1.
func (s *sealed) index(n int64) int {
	return slices.IndexFunc(s.held, func(h heldSegment) bool { return h.number == n })
}

// find returns segment n if it is in memory.
func (s *sealed) find(n int64) (segment, bool) {
	if i := s.index(n); i >= 0 {
		return s.held[i].segment, true
	}
	return segment{}, false
}

// unreadable records that segment n could not be read back, unless it was lost meanwhile.
func (s *sealed) unreadable(n int64) {
	if !s.lost.has(n) {
		s.markLost(n, s.onDisk[s.shape.place(n)].set, byDisk)
	}
}

// finish lets the disk evict the log.
func (s *sealed) finish() {
	if s.disk != nil {
		s.disk.finish()
	}
}

// discard makes all segments lost without counting them in loss. count is the number of segments.
func (s *sealed) discard(count int64) {
	if s.disk != nil {
		s.disk.discard()
	}
	s.held, s.backlog, s.onDisk, s.lost, s.gone = nil, 0, nil, nil, s.all
	if count > 0 {
		s.lost = extents{{0, count}}
	}
}
