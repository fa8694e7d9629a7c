package output

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// A slotFile keeps the sealed segments of all logs of a store, in slots of one size in one file.
// The file has no name, so that nothing is left of it however the process ends: the kernel frees
// the space of an unlinked file when its last descriptor is closed
// (https://man7.org/linux/man-pages/man2/unlink.2.html). It is one descriptor however many logs
// there are, so that a log never runs out of descriptors halfway.
//
// The space that all logs take there is limited. If a write would exceed the limit, the slots of
// the log that was finished first are taken away. If no log is finished the write is refused: an
// unfinished log loses nothing to another.
type slotFile struct {
	open  func() (rawFile, error)
	size  int64 // bytes of data in a slot; after them there is room for labels of the same size
	limit int64 // bytes on disk; 0: none

	mu       sync.Mutex
	file     rawFile  // nil before the first write
	blocks   []int64  // the bytes that each slot takes on disk; a free slot can take some, too
	free     []int64  // slots that no log has; the last is used first, so used slots come last
	used     int64    // the sum of blocks
	finished []*slots // finished logs that have slots, in the order in which they are evicted
	failure  error    // see Usage
}

// A rawFile is the file of a slotFile.
type rawFile interface {
	io.ReaderAt
	io.WriterAt
	// Name returns the path that the file had.
	Name() string
	// Punch gives the n bytes at off back to the disk.
	Punch(off, n int64) error
}

// slots is the [disk] of one log.
type slots struct {
	file    *slotFile
	shape   shape
	evicted atomic.Int64 // times; counted before the slots are used again

	// guarded by file.mu
	at       []int64 // the slot of each place, or none; empty if the log has no slots
	finished bool    // can be evicted, except while writing
	writing  bool
}

// page is the unit in which a disk is assumed to give out space. A segment is counted in whole
// pages, so that [Config].Disk bounds the blocks that the disk allocates and not only the bytes
// written.
const page = 4 << 10

func pages(n int64) int64 { return (n + page - 1) / page * page }

// stride returns the distance from slot to slot. After short labels there is a hole in the file.
func (f *slotFile) stride() int64 { return 2 * pages(f.size) }

var errEvicted = errors.New("the segment was evicted")

// newLog returns the disk of a new log.
func (f *slotFile) newLog(shape shape) *slots { return &slots{file: f, shape: shape} }

func (s *slots) evictions() int64 { return s.evicted.Load() }

func (s *slots) write(n int64, g segment) error {
	f, place, bytes := s.file, s.shape.place(n), pages(int64(len(g.data)))+pages(int64(len(g.runs)))
	slot, more, err := f.reserve(s, place, bytes)
	var written int64
	if err == nil {
		written, err = f.write(slot, g)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Otherwise it was taken meanwhile, with what it was counted for.
	if more > 0 && s.slot(place) == slot {
		refused := min(more, bytes-written)
		f.used -= refused
		f.blocks[slot] -= refused
	}
	s.writing = false
	f.failure = err
	return err
}

// reserve returns a place's slot, with room for that many bytes, and how many more bytes than
// before the slot is counted for. It allocates a slot if the place has none. The log is not evicted
// until the write is over.
func (f *slotFile) reserve(s *slots, place, bytes int64) (slot, more int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.writing = true
	if f.file == nil {
		file, err := f.open()
		if err != nil {
			return none, 0, err
		}
		f.file = file
	}
	for {
		slot = s.slot(place)
		if slot == none {
			slot = f.spare()
		}
		more = max(0, bytes-f.blocks[slot])
		if more > 0 && f.limit > 0 && f.used+more > f.limit {
			if f.trim(slot) || f.evictFirst() {
				continue
			}
			return none, 0, ErrLimit
		}
		f.used += more
		f.blocks[slot] += more
		if s.slot(place) == none {
			f.free = f.free[:len(f.free)-1]
			f.grant(s, place, slot)
		}
		return slot, more, nil
	}
}

// slot returns the slot of a place, or none. The caller holds file.mu.
func (s *slots) slot(place int64) int64 {
	if place >= int64(len(s.at)) {
		return none
	}
	return s.at[place]
}

// grant gives a slot to a place of a log. The caller holds f.mu.
func (f *slotFile) grant(s *slots, place, slot int64) {
	if len(s.at) == 0 && s.finished {
		f.finished = append(f.finished, s)
	}
	for int64(len(s.at)) <= place {
		s.at = append(s.at, none)
	}
	s.at[place] = slot
}

// spare returns the last free slot, and makes one if no slot is free. The caller holds f.mu.
func (f *slotFile) spare() int64 {
	if len(f.free) == 0 {
		f.free = append(f.free, int64(len(f.blocks)))
		f.blocks = append(f.blocks, 0)
	}
	return f.free[len(f.free)-1]
}

// trim gives the space of a free slot other than that one back to the disk, and reports whether
// there was one. Slots that others have left with a little space each could else fill the limit.
// The caller holds f.mu.
func (f *slotFile) trim(slot int64) bool {
	i := slices.IndexFunc(f.free, func(other int64) bool { return other != slot && f.blocks[other] > 0 })
	if i < 0 {
		return false
	}
	other := f.free[i]
	if f.file.Punch(other*f.stride(), f.stride()) != nil {
		return false
	}
	f.used -= f.blocks[other]
	f.blocks[other] = 0
	return true
}

// evictFirst takes the slots of the log that was finished first, and reports whether there was one.
// The slots are about to be written again, so they keep their space on disk. The caller holds f.mu.
func (f *slotFile) evictFirst() bool {
	i := slices.IndexFunc(f.finished, func(s *slots) bool { return !s.writing })
	if i < 0 {
		return false
	}
	s := f.finished[i]
	s.evicted.Add(1)
	f.free = append(f.free, f.take(s)...)
	return true
}

// take takes all slots of a log. The caller holds f.mu.
func (f *slotFile) take(s *slots) []int64 {
	f.finished = slices.DeleteFunc(f.finished, func(other *slots) bool { return other == s })
	all := slices.DeleteFunc(s.at, func(slot int64) bool { return slot == none })
	s.at = nil
	return all
}

// write writes g into a slot and returns the space on disk that this took.
func (f *slotFile) write(slot int64, g segment) (bytes int64, err error) {
	at := slot * f.stride()
	n, err := f.file.WriteAt(g.data, at)
	bytes = pages(int64(n))
	if err == nil && len(g.runs) > 0 {
		n, err = f.file.WriteAt(g.runs, at+pages(f.size))
		bytes += pages(int64(n))
	}
	return bytes, err
}

func (s *slots) read(n int64, off int, b []byte, labels int) (runs []byte, err error) {
	f := s.file
	f.mu.Lock()
	slot := s.slot(s.shape.place(n))
	f.mu.Unlock()
	if slot == none {
		return nil, errEvicted
	}
	at := slot * f.stride()
	if _, err := f.file.ReadAt(b, at+int64(off)); err != nil {
		return nil, err
	}
	if labels == 0 {
		return nil, nil
	}
	runs = make([]byte, labels)
	_, err = f.file.ReadAt(runs, at+pages(f.size))
	return runs, err
}

func (s *slots) finish() {
	f := s.file
	f.mu.Lock()
	defer f.mu.Unlock()
	s.finished = true
	if len(s.at) > 0 {
		f.finished = append(f.finished, s)
		f.roomMade()
	}
}

// roomMade forgets that the last write found no room. The caller holds f.mu.
func (f *slotFile) roomMade() {
	if f.failure == ErrLimit {
		f.failure = nil
	}
}

// discard also gives the space of the slots back to the disk.
func (s *slots) discard() {
	f := s.file
	f.mu.Lock()
	taken := f.take(s)
	f.mu.Unlock()
	slices.Sort(taken)
	// Giving back a gigabyte takes long, so the lock is not held meanwhile.
	for len(taken) > 0 {
		n := 1
		for n < len(taken) && taken[n] == taken[n-1]+1 {
			n++
		}
		f.giveBack(taken[:n])
		taken = taken[n:]
	}
}

// giveBack frees neighbouring slots and gives their space back to the disk. If the file system
// can't do that, the next log gets the slots with their space.
func (f *slotFile) giveBack(run []int64) {
	err := f.file.Punch(run[0]*f.stride(), int64(len(run))*f.stride())
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.free = append(f.free, run...)
		return
	}
	for _, slot := range run {
		f.used -= f.blocks[slot]
		f.blocks[slot] = 0
	}
	f.free = slices.Concat(run, f.free)
	f.roomMade()
}

// usage returns the space that is used on disk.
func (f *slotFile) usage() Usage {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := Usage{Bytes: f.used, Limit: f.limit, Failure: f.failure}
	if f.file != nil {
		u.Dir = filepath.Dir(f.file.Name())
	}
	return u
}

// A namelessFile is a [rawFile] on a real disk.
type namelessFile struct{ *os.File }

// openNameless makes a file in the directory that dir returns, and removes its name at once.
func openNameless(dir func() (string, error)) (rawFile, error) {
	path, err := dir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(path, "output-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return namelessFile{f}, nil
}
