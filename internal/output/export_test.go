package output

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
)

// Parts of the implementation that tests need.
const (
	SegmentSize = segmentSize
	MaxHeld     = maxHeld
	MaxOpen     = maxOpen
	Shortest    = shortest
)

// FilesOf returns what opens the files of a past log in a directory.
func FilesOf(dir string) func(name string) (*os.File, error) {
	return func(name string) (*os.File, error) {
		f, err := openFile(filepath.Join(dir, name), os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		return f.(diskFile).File, nil
	}
}

// RawFile is an open file of a log.
type RawFile = rawFile

// A TestStore is a store whose files can be replaced.
type TestStore struct {
	*store
	logs *atomic.Int64
}

// NewTestStore is NewStore for tests.
func NewTestStore(c Config) TestStore { return TestStore{newStore(c), new(atomic.Int64)} }

// New returns a new log.
func (s TestStore) New() TestLog {
	return TestLog{s.newLog(fmt.Sprint("log", s.logs.Add(1)))}
}

// WrapFiles makes the store use the results of wrap as its files.
func (s TestStore) WrapFiles(wrap func(path string, f RawFile) RawFile) {
	s.Open(func(path string, flags int) (RawFile, error) {
		f, err := openFile(path, flags)
		if err != nil {
			return nil, err
		}
		return wrap(path, f), nil
	})
}

// Open makes the store open its files by open.
func (s TestStore) Open(open func(path string, flags int) (RawFile, error)) { s.files.open = open }

// WrapOpen makes the store open its files by wrap, which is given the real thing.
func (s TestStore) WrapOpen(wrap func(open func() (RawFile, error)) (RawFile, error)) {
	s.Open(func(path string, flags int) (RawFile, error) {
		return wrap(func() (RawFile, error) { return openFile(path, flags) })
	})
}

// CloseFiles closes all files. They are opened again when they are used.
func (s TestStore) CloseFiles() {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	for s.files.closeOne() {
	}
}

// FillMemory leaves no room for attachments in memory.
func (s TestStore) FillMemory() { s.memory.used = attachedInMemory }

// Descriptors returns how many files are open and not used.
func (s TestStore) Descriptors() int { return len(s.files.idle) }

// SetShape makes all sizes of the store's logs small.
func (s TestStore) SetShape(short int64, segment int, limit int64) {
	s.shape = newShape(limit, s.config.Dir != nil)
	if s.config.Dir != nil {
		s.shape.short, s.shape.segment, s.shape.front = min(short, limit, maxHeld*int64(segment)), segment, int64(segment)
	}
}

// A TestLog is a log that shows where its bytes are.
type TestLog struct{ *log }

// Held returns how many bytes are in memory, and how many there can be.
func (l TestLog) Held() (n, most int) {
	for _, g := range l.held {
		n += len(g.data)
	}
	return n, l.store.shape.held * l.store.shape.segment
}

// Step returns how many bytes more than its cap a log can have.
func (l TestLog) Step() int64 {
	if l.store.config.Dir == nil {
		return int64(l.store.shape.segment)
	}
	return l.store.shape.step
}

// Memory returns how many bytes are reserved for bytes in memory and their labels.
func (l TestLog) Memory() (n int) {
	for _, g := range l.held {
		n += cap(g.data) + cap(g.runs)
	}
	return n
}

// Times returns how many writes the log remembers the time of.
func (l TestLog) Times() int { return len(l.times) }

// Cap returns how many bytes the log keeps.
func (l TestLog) Cap() int64 {
	if c := l.store.shape; l.store.config.Dir != nil {
		return c.head + c.tail
	}
	return int64((l.store.shape.held - 1) * l.store.shape.segment)
}

// SetLargest bounds the files of the store, which have holes.
func (s TestStore) SetLargest(size int64) { s.largest = size }
