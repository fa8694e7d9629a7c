package jobs

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// A spill holds on disk what the logs of a store keep no longer in memory: slots
// of one size, in one file. The file has no name, so that nothing is left of it
// however the process ends; and it is one descriptor however many logs there
// are, so that a log never runs out of them in the middle.
//
// What all logs have there is bounded. Where a write would go beyond the limit,
// the log of the job that ended first gives up its slots, and where no job has
// ended the write is refused: a running job loses nothing to another.
type spill struct {
	open  func() (spillFile, error)
	size  int64 // bytes of data in a slot; behind them is room for labels that are as long
	limit int64 // bytes on disk; 0: none

	buffers sync.Pool // of *segment: memory of segments that were written

	mu      sync.Mutex
	file    spillFile // nil before the first need
	blocks  []int64   // by slot: the bytes that it takes on disk; a free one may take some, too
	free    []int64   // the last one is taken first: those that take something on disk
	used    int64     // the sum of blocks
	logs    int       // that have slots
	ended   []*lease  // of ended jobs, in the order in which they give way
	failure error     // why the last write failed; nil if it did not
}

// A spillFile is the file of a spill.
type spillFile interface {
	io.ReaderAt
	io.WriterAt
	// Name is the path that the file had.
	Name() string
	// Punch gives the n bytes at off back to the disk.
	Punch(off, n int64) error
}

// A lease is the slots of one log, which is the only one to use it. The spill
// guards it with its lock.
type lease struct {
	slots   []int64
	ended   bool         // its job has: it may be revoked
	writing bool         // it may not just now
	revoked atomic.Int64 // how often it was; counted before the slots are another's
}

// page is what a disk gives out at least.
const page = 4 << 10

func pages(n int64) int64 { return (n + page - 1) / page * page }

// stride is how far it is from slot to slot. Behind short labels there is a hole
// in the file.
func (s *spill) stride() int64 { return 2 * pages(s.size) }

var (
	errRevoked = errors.New("the slots of this log were given to another")
	errLimit   = errors.New("the limit of what all jobs keep on disk is reached (REPL_MAX_STATE), and no job that has ended has any of it")
)

// put writes g into slot at of the lease, or into a new one if at is below 0,
// and returns the slot. It returns errRevoked if the lease was revoked more often
// than the caller knows of. Of one lease there is one put at a time.
func (s *spill) put(l *lease, revoked, at int64, g segment) (int64, error) {
	at, err := s.reserve(l, revoked, at, pages(s.size)+pages(int64(len(g.runs))))
	if err == nil {
		err = s.write(at, g)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.writing = false
	if err != errRevoked {
		s.failure = err
	}
	return at, err
}

// reserve finds a slot to which bytes can be written, and lets nobody revoke the
// lease until that is done.
func (s *spill) reserve(l *lease, revoked, at, bytes int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.revoked.Load() != revoked {
		return -1, errRevoked
	}
	l.writing = true
	if s.file == nil {
		f, err := s.open()
		if err != nil {
			return at, err
		}
		s.file = f
	}
	for {
		slot := at
		if slot < 0 {
			slot = s.spare()
		}
		if more := bytes - s.blocks[slot]; more > 0 {
			if s.limit > 0 && s.used+more > s.limit {
				if s.revokeFirst() {
					continue
				}
				return at, errLimit
			}
			s.used += more
			s.blocks[slot] = bytes
		}
		if at < 0 {
			s.free = s.free[:len(s.free)-1]
			s.grant(l, slot)
		}
		return slot, nil
	}
}

// grant gives a slot to a lease.
func (s *spill) grant(l *lease, slot int64) {
	if l.slots = append(l.slots, slot); len(l.slots) > 1 {
		return
	}
	s.logs++
	if l.ended {
		s.ended = append(s.ended, l)
	}
}

// spare returns the last of the free slots, of which it makes one if there is
// none.
func (s *spill) spare() int64 {
	if len(s.free) == 0 {
		s.free = append(s.free, int64(len(s.blocks)))
		s.blocks = append(s.blocks, 0)
	}
	return s.free[len(s.free)-1]
}

// revokeFirst takes back the slots of the log that gives way first, and reports
// whether there was one. They are about to be written to, so they stay on disk.
func (s *spill) revokeFirst() bool {
	i := slices.IndexFunc(s.ended, func(l *lease) bool { return !l.writing })
	if i < 0 {
		return false
	}
	l := s.ended[i]
	s.ended = slices.Delete(s.ended, i, i+1)
	l.revoked.Add(1)
	s.free = append(s.free, l.slots...)
	l.slots = nil
	s.logs--
	return true
}

// write writes g into a slot.
func (s *spill) write(slot int64, g segment) error {
	at := slot * s.stride()
	if _, err := s.file.WriteAt(g.data, at); err != nil {
		return err
	}
	if len(g.runs) == 0 {
		return nil
	}
	_, err := s.file.WriteAt(g.runs, at+pages(s.size))
	return err
}

// read fills b with what is at off in a slot, and returns the labels that are
// that long. The slot may be another's by then.
func (s *spill) read(slot int64, b []byte, off, labels int) (runs []byte, err error) {
	at := slot * s.stride()
	if _, err := s.file.ReadAt(b, at+int64(off)); err != nil {
		return nil, err
	}
	if labels == 0 {
		return nil, nil
	}
	runs = make([]byte, labels)
	_, err = s.file.ReadAt(runs, at+pages(s.size))
	return runs, err
}

// end tells that the job of a lease has ended.
func (s *spill) end(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.ended = true
	if len(l.slots) > 0 {
		s.ended = append(s.ended, l)
	}
}

// release takes back the slots of a lease that is needed no more, and their
// space on disk.
func (s *spill) release(l *lease) {
	s.mu.Lock()
	slots := l.slots
	if l.slots = nil; len(slots) > 0 {
		s.logs--
	}
	s.ended = slices.DeleteFunc(s.ended, func(e *lease) bool { return e == l })
	s.mu.Unlock()
	slices.Sort(slots)
	for len(slots) > 0 { // without the lock: giving back a gigabyte takes its time
		n := 1
		for n < len(slots) && slots[n] == slots[n-1]+1 {
			n++
		}
		err := s.file.Punch(slots[0]*s.stride(), int64(n)*s.stride())
		s.mu.Lock()
		if err != nil { // the next log gets them as they are
			s.free = append(s.free, slots[:n]...)
		} else {
			for _, slot := range slots[:n] {
				s.used -= s.blocks[slot]
				s.blocks[slot] = 0
			}
			s.free = slices.Concat(slots[:n], s.free)
		}
		s.mu.Unlock()
		slots = slots[n:]
	}
}

// usage tells what is on disk.
func (s *spill) usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Usage{Bytes: s.used, Limit: s.limit, Logs: s.logs, Failure: s.failure}
	if s.file != nil {
		u.Dir = filepath.Dir(s.file.Name())
	}
	return u
}
