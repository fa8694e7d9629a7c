package output

import "sync"

// A Config sets where logs are kept, and how much of them.
type Config struct {
	// Cap is the number of bytes kept of one log. 0 is 1 GiB, or 1 MiB if Dir is nil.
	Cap int64
	// Disk is the number of bytes that all logs can take on disk; 0 is no limit. Beyond it, the
	// logs that were finished first are dropped; an unfinished log loses nothing to another. Stores
	// don't know of one another.
	Disk int64
	// Others returns the bytes that others take of Disk, for example past runs. Nil: nobody else does.
	Others func() int64
	// MakeRoom asks the others to give back at least need bytes, and reports whether they gave back
	// any. It is called before a log loses bytes to Disk, by the goroutine that writes, without a
	// lock of the store. Nil: the others keep theirs.
	MakeRoom func(need int64) bool
	// Dir returns the directory for output that does not fit into memory. It is called whenever one
	// is needed, and the directory is made if it does not exist. Nil: everything stays in memory.
	Dir func() (string, error)
}

const (
	segmentSize   = 256 << 10 // bytes that a log keeps in memory before it uses the disk
	minSegments   = 16        // a small cap makes for small segments, not for few
	maxInMemory   = 3         // segments in memory if the disk fails: the first and the newest
	defaultCap    = 1 << 30
	defaultMemory = 1 << 20 // the cap if there is no disk
)

// store is a [Store] that lives as long as the process: its logs are in memory and in a file
// without a name, so that nothing is left of them however the process ends.
type store struct {
	shape   shape
	size    int        // bytes in a segment
	short   bool       // logs fit into memory: the file is for attachments only
	file    *slotFile  // nil: memory only
	buffers *sync.Pool // the memory of *segments that were written to the file, for the next ones
	memory  memory     // holds attachments
}

// NewStore returns a store that keeps logs for as long as the process lives.
func NewStore(c Config) Store { return newStore(c) }

func newStore(c Config) *store {
	limit := c.Cap
	switch {
	case limit > 0:
	case c.Dir == nil:
		limit = defaultMemory
	default:
		limit = defaultCap
	}
	size := min(segmentSize, max(1, limit/minSegments))
	s := &store{shape: newShape(limit / size), size: int(size), short: limit <= segmentSize}
	if c.Dir != nil {
		if s.short {
			size = segmentSize
		}
		s.file = &slotFile{open: func() (rawFile, error) { return openNameless(c.Dir) }, size: size, limit: c.Disk}
		s.buffers = new(sync.Pool)
	}
	return s
}

func (s *store) NewLog(string) Log {
	var l *segmentLog
	if s.short || s.file == nil {
		l = newLog(s.size, s.shape, s.shape.segments(), nil, nil)
	} else {
		l = newLog(s.size, s.shape, maxInMemory, s.file.newLog(s.shape), s.buffers)
	}
	l.attached.memory = &s.memory
	if s.file != nil {
		l.attached.disk, l.attached.size = s.file.newLog(attachedShape), int(s.file.size)
	}
	return l
}

func (s *store) Usage() Usage {
	if s.file == nil {
		return Usage{}
	}
	return s.file.usage()
}

// A shape says which segments of a log are kept: the first ones, and as many of the newest as the
// ring has places. Each segment has one place; the places of the ring are used again and again.
type shape struct {
	head int64 // places of the first segments, one each
	ring int64 // places that all later segments share
}

// newShape returns the shape of a log of that many segments: a half for the first, a half for the
// newest, and at least one each.
func newShape(segments int64) shape {
	head := max(1, segments/2)
	return shape{head: head, ring: max(1, segments-head)}
}

func (s shape) segments() int { return int(s.head + s.ring) }

// place returns the place of segment n.
func (s shape) place(n int64) int64 {
	if n < s.head {
		return n
	}
	return s.head + (n-s.head)%s.ring
}

// replaced returns the segment whose place segment n takes, or none.
func (s shape) replaced(n int64) int64 {
	if old := n - s.ring; old >= s.head {
		return old
	}
	return none
}
