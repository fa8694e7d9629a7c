package output

import "sync"

// Parts of the implementation that tests of its disk need.
const (
	SegmentSize = segmentSize
	MaxBacklog  = maxBacklog
)

// RawFile is the file of a store.
type RawFile = rawFile

// A TestStore is a store whose file can be replaced.
type TestStore struct{ *store }

// NewTestStore is NewStore for tests.
func NewTestStore(c Config) TestStore { return TestStore{newStore(c)} }

// New returns a new log.
func (s TestStore) New() TestLog { return TestLog{s.NewLog("").(*segmentLog)} }

// WrapFile makes the store use the result of wrap as its file.
func (s TestStore) WrapFile(wrap func(RawFile) RawFile) {
	open := s.file.open
	s.file.open = func() (rawFile, error) {
		f, err := open()
		if err != nil {
			return nil, err
		}
		return wrap(f), nil
	}
}

// FillMemory leaves no room for attachments in memory.
func (s TestStore) FillMemory() { s.memory.used = attachedInMemory }

// File returns the store's file, and the number of slots in it.
func (s TestStore) File() (f RawFile, slots int) { return s.file.file, len(s.file.blocks) }

// A TestLog is a log that shows where its bytes are.
type TestLog struct{ *segmentLog }

// NewTestLog returns a log of that many segments of size bytes on a disk that open opens, of which
// it keeps maxHeld in memory if the disk refuses them. If open is nil, it keeps all in memory.
func NewTestLog(size int, segments int64, maxHeld int, open func() (RawFile, error)) TestLog {
	s := &store{shape: newShape(segments), size: size}
	if open == nil {
		return TestLog{s.NewLog("").(*segmentLog)}
	}
	s.file = &slotFile{open: open, size: int64(size)}
	l := newLog(size, s.shape, maxHeld, s.file.newLog(s.shape), new(sync.Pool))
	l.attached.memory = &s.memory
	return TestLog{l}
}

// Flushed waits until the log has written to disk all that it can.
func (l TestLog) Flushed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.flushing {
		l.awaitFlush()
	}
}

// Size returns the size of a segment.
func (l TestLog) Size() int64 { return int64(l.size) }

// Held returns how many sealed segments are in memory, and how many there can be.
func (l TestLog) Held() (n, most int) { return len(l.sealed.held), l.sealed.maxHeld }

// Memory returns how many bytes are reserved for the newest segment and its labels.
func (l TestLog) Memory() int { return cap(l.active.data) + cap(l.active.runs) }

// Times returns how many writes the log remembers the time of.
func (l TestLog) Times() int { return len(l.times) }

// CapGap returns the gap that the cap alone makes in a log of end bytes, if there is one.
func (l TestLog) CapGap(end int64) []Range {
	if to := max(0, end-1)/l.Size() - l.sealed.shape.ring; to > l.sealed.shape.head {
		return []Range{{l.sealed.shape.head * l.Size(), to * l.Size()}}
	}
	return nil
}

// Newest returns where the newest sealed segment of a log of end bytes begins.
func (l TestLog) Newest(end int64) int64 {
	return max(0, (max(0, end-1)/l.Size()-1)*l.Size())
}
