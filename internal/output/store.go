package output

import (
	"os"
	"slices"
	"sync"
	"syscall"
)

// A Config sets where logs are kept, and how much of them.
type Config struct {
	// Cap is the number of bytes kept of one log. 0 is 1 GiB, or 1 MiB if Dir is nil.
	Cap int64
	// Disk is the number of bytes that all logs and Others can take on disk; 0 is no limit. Beyond it,
	// MakeRoom is asked, and then the logs that were finished first are dropped, except their newest 4
	// KiB; an unfinished log loses nothing to another. Stores don't know of one another.
	Disk int64
	// Others returns the bytes that others take of Disk, for example past runs. Nil: no one else takes any.
	Others func() int64
	// MakeRoom asks the others to give back at least need bytes, and reports whether they gave back
	// any. It is called before a log loses bytes to Disk, by the goroutine that writes, without a
	// lock of the store. Nil: the others keep theirs.
	MakeRoom func(need int64) bool
	// Dir returns the directory in which each log has a directory of its own, named by its id. It is
	// called whenever one is needed, and the directory is made if it does not exist. Nil: everything
	// stays in memory.
	Dir func() (string, error)
}

const (
	shortest      = 4 << 10   // bytes that a log keeps in memory until it is flushed or more come
	segmentSize   = 256 << 10 // bytes of a segment in memory
	maxHeld       = 4         // segments in memory if the disk refuses them: the first and the newest
	minSegments   = 16        // segments in memory if there is no disk
	maxStep       = 1 << 20   // bytes that a log can have on disk beyond its cap
	defaultCap    = 1 << 30
	defaultMemory = 1 << 20 // the cap if there is no disk

	// page is the unit in which a disk is assumed to give out space. Files are counted in whole pages,
	// so that [Config].Disk bounds the blocks that the disk allocates and not only the bytes written.
	page = 4 << 10
)

// pages returns the size of the pages of the first n bytes of a file.
func pages(n int64) int64 { return (n + page - 1) / page * page }

// hole returns the size of the pages that are in r from end to end.
func hole(r Range) int64 { return max(0, r.To/page*page-pages(r.From)) }

// A shape says how much of a log is kept.
type shape struct {
	short   int64 // bytes that stay in memory until they are flushed or more come
	segment int   // bytes of a segment in memory
	held    int   // segments in memory at most
	front   int64 // segments in memory that begin before this cursor stay there
	head    int64 // bytes on disk of the beginning
	tail    int64 // bytes on disk of the end
	step    int64 // bytes between them before they are cut out
}

// newShape returns the shape of logs of which limit bytes are kept.
func newShape(limit int64, disk bool) shape {
	if !disk {
		segment := min(segmentSize, max(1, limit/minSegments))
		front := max(1, limit/segment/2)
		return shape{segment: int(segment), held: int(front + max(1, limit/segment-front) + 1), front: front * segment}
	}
	segment := min(segmentSize, max(1, limit/maxHeld))
	return shape{
		short: min(shortest, limit, maxHeld*segment), segment: int(segment), held: maxHeld, front: segment,
		head: limit / 2, tail: limit - limit/2, step: min(maxStep, max(1, limit/minSegments)),
	}
}

// store is the [Store] of this package.
type store struct {
	config Config
	shape  shape
	files  *descriptors

	largest int64 // the bytes of one file, holes included

	mu      sync.Mutex
	dir     string // the last that config.Dir returned
	disk    place
	memory  place // it holds attachments that the disk refused
	failure error // the last write's, see Usage
}

// A place has bytes of logs, on disk or in memory.
type place struct {
	used     int64
	finished []*log // finished logs with bytes there, in the order in which they are evicted
}

// NewStore returns a store of logs. Their files are left when the process ends.
func NewStore(c Config) Store { return newStore(c) }

func newStore(c Config) *store {
	limit := c.Cap
	if limit <= 0 {
		limit = defaultCap
		if c.Dir == nil {
			limit = defaultMemory
		}
	}
	return &store{config: c, shape: newShape(limit, c.Dir != nil), files: newDescriptors(), largest: largestFile()}
}

// largestFile returns the size that no file can exceed: a record of an index has 48 bits for a cursor, and a write
// beyond the limit of the process would end it by SIGXFSZ.
func largestFile() int64 {
	const most = 1 << 47
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_FSIZE, &r) != nil {
		return most
	}
	return int64(min(most, r.Cur))
}

func (s *store) NewLog(id string) Log { return s.newLog(id) }

func (s *store) newLog(id string) *log {
	return &log{store: s, id: id, final: -1}
}

func (s *store) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Usage{Dir: s.dir, Bytes: s.disk.used, Limit: s.config.Disk, Failure: s.failure}
}

// newFile returns a file that is opened when it is used.
func (s *store) newFile(path string) *file {
	return &file{path: path, set: s.files, flags: os.O_RDWR | os.O_CREATE | os.O_EXCL}
}

// pastFile returns a file that is only read, and closed after each use: no writer removes it.
func (s *store) pastFile(path string) *file {
	return &file{path: path, set: s.files, brief: true}
}

// take counts that many more bytes on disk for l, or fewer. If that exceeds the limit, first the
// others and then finished logs make room; without any that can, the error is [ErrLimit]. The caller
// holds l.writing.
func (s *store) take(l *log, bytes int64) error {
	for bytes != 0 {
		others := s.others()
		s.mu.Lock()
		over := s.disk.used + others + bytes - s.config.Disk
		if bytes < 0 || s.config.Disk <= 0 || over <= 0 {
			s.disk.add(l, &l.taken, bytes)
			if bytes < 0 {
				s.roomMade()
			}
			s.mu.Unlock()
			return nil
		}
		finished := slices.Clone(s.disk.finished)
		s.mu.Unlock()
		madeRoom := s.config.MakeRoom != nil && s.config.MakeRoom(over) && s.others() < others
		if !madeRoom && !slices.ContainsFunc(finished, (*log).evict) {
			return ErrLimit
		}
	}
	return nil
}

// remember counts that many more bytes in memory for the attachments of l, or fewer, and reports
// whether they have room. Finished logs make room, which lose theirs because of why.
func (s *store) remember(l *log, bytes int64, why error) bool {
	for {
		s.mu.Lock()
		if bytes <= 0 || s.memory.used+bytes <= attachedInMemory {
			s.memory.add(l, &l.remembered, bytes)
			s.mu.Unlock()
			return true
		}
		if len(s.memory.finished) == 0 {
			s.mu.Unlock()
			return false
		}
		first := s.memory.finished[0]
		s.mu.Unlock()
		first.forget(why)
	}
}

// add counts bytes for l, which has taken some there. The caller holds store.mu.
func (p *place) add(l *log, taken *int64, bytes int64) {
	before := *taken
	p.used, *taken = p.used+bytes, before+bytes
	switch {
	case *taken == 0:
		p.finished = slices.DeleteFunc(p.finished, func(other *log) bool { return other == l })
	case l.final >= 0 && before == 0:
		p.finished = append(p.finished, l)
	}
}

func (s *store) others() int64 {
	if s.config.Others == nil {
		return 0
	}
	return s.config.Others()
}

// finish lets l be evicted. The caller holds l.writing.
func (s *store) finish(l *log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.taken > 0 {
		s.disk.finished = append(s.disk.finished, l)
		s.roomMade()
	}
	if l.remembered > 0 {
		s.memory.finished = append(s.memory.finished, l)
	}
}

// roomMade forgets that the last write found no room. The caller holds s.mu.
func (s *store) roomMade() {
	if s.failure == ErrLimit {
		s.failure = nil
	}
}

// wrote records the result of a write.
func (s *store) wrote(err error) {
	if err == errCap {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
}
