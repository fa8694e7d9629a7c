package output

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// smallAttachment is the size up to which an attachment is kept in memory even if the disk works.
	smallAttachment = 64 << 10
	// attachedInMemory bounds the bytes of the attachments of all logs of a store in memory.
	attachedInMemory = 64 << 20
)

// errDiscarded is the error of an attachment of a log that was discarded.
var errDiscarded = errors.New("the log was discarded")

// attachments are the attachments of one log. A small one is in memory if there is room. Any other
// is on disk, in parts of the size of a segment, which are evicted as those of the log are; if the
// disk refuses it, it is in memory if there is room.
type attachments struct {
	memory *memory
	disk   disk // nil: memory only
	size   int  // bytes in a part

	writing sync.Mutex // held while the disk writes
	parts   int64      // on disk; guarded by writing

	mu     sync.Mutex
	list   []attachment
	closed bool
}

// An attachment is in memory, on disk, or lost.
type attachment struct {
	size      int
	data      []byte // if it is in memory
	first     int64  // the number of its first part on disk
	evictions int64  // of the disk, when it was written
	err       error  // why it was not kept
}

// memory counts the bytes that the attachments of a store take in memory.
type memory struct{ used atomic.Int64 }

// take reserves n bytes and reports whether there is room.
func (m *memory) take(n int) bool {
	if m.used.Add(int64(n)) <= attachedInMemory {
		return true
	}
	m.give(n)
	return false
}

func (m *memory) give(n int) { m.used.Add(-int64(n)) }

// attachedShape gives each part a place of its own.
var attachedShape = shape{head: math.MaxInt64, ring: 1}

func (a *attachments) add(b []byte) int {
	if b == nil {
		b = []byte{}
	}
	at := attachment{size: len(b), data: b}
	if len(b) > smallAttachment || !a.memory.take(len(b)) {
		at = a.store(b)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.forget(&at)
	}
	a.list = append(a.list, at)
	return len(a.list) - 1
}

// store writes b to disk, or keeps it in memory if the disk refuses it.
func (a *attachments) store(b []byte) attachment {
	at := attachment{size: len(b), err: ErrLimit}
	if a.disk != nil {
		at.evictions = a.disk.evictions()
		at.first, at.err = a.write(b)
	}
	if at.err != nil && a.memory.take(len(b)) {
		at.data, at.err = b, nil
	}
	return at
}

// write writes b to disk and returns the number of its first part. If that fails, the next
// attachment takes the places of the parts that were written.
func (a *attachments) write(b []byte) (first int64, err error) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.discarded() {
		return none, errDiscarded
	}
	n := a.parts
	for part := range slices.Chunk(b, a.size) {
		if err := a.disk.write(n, segment{data: part}); err != nil {
			return none, err
		}
		n++
	}
	first, a.parts = a.parts, n
	return first, nil
}

func (a *attachments) discarded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

func (a *attachments) read(n int) ([]byte, error) {
	a.mu.Lock()
	at := a.list[n]
	a.mu.Unlock()
	switch {
	case at.err != nil:
		return nil, at.err
	case at.data != nil:
		return at.data, nil
	}
	b := make([]byte, at.size)
	number := at.first
	for part := range slices.Chunk(b, a.size) {
		if _, at.err = a.disk.read(number, 0, part, 0); at.err != nil {
			break
		}
		number++
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch { // what was read can be bytes of another log
	case a.closed:
		return nil, errDiscarded
	case a.disk.evictions() != at.evictions:
		return nil, ErrLimit
	case at.err != nil:
		return nil, at.err
	}
	return b, nil
}

// finish lets the disk evict the attachments.
func (a *attachments) finish() {
	if a.disk != nil {
		a.disk.finish()
	}
}

// discard drops all attachments, those that are added later too.
func (a *attachments) discard() {
	a.mu.Lock()
	a.closed = true
	for i := range a.list {
		a.forget(&a.list[i])
	}
	a.mu.Unlock()
	if a.disk == nil {
		return
	}
	a.writing.Lock() // or a write that is under way would take places that nothing frees
	defer a.writing.Unlock()
	a.disk.discard()
}

// forget drops an attachment. The caller holds a.mu.
func (a *attachments) forget(at *attachment) {
	if at.data != nil {
		a.memory.give(at.size)
	}
	*at = attachment{err: errDiscarded}
}
