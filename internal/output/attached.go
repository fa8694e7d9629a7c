package output

import (
	"errors"
	"math"
	"slices"
	"sync"
)

const (
	// smallAttachment is the size up to which an attachment is kept in memory even if the disk works.
	smallAttachment = 64 << 10
	// attachedInMemory bounds the bytes of the attachments of all logs of a store in memory.
	attachedInMemory = 64 << 20
)

// Errors of attachments that are gone because their log, or they themselves, are no longer needed.
var (
	errDiscarded = errors.New("the log was discarded")
	errDetached  = errors.New("the attachment was detached")
)

// attachments are the attachments of one log. A small one is in memory if there is room. Any other
// is on disk, in parts of the size of a segment, which the disk evicts as it evicts segments. If
// the disk refuses it, it is in memory: the logs that were finished first make room for it there.
type attachments struct {
	memory *memory
	disk   disk // nil: memory only
	size   int  // bytes in a part

	writing sync.Mutex // held while the disk writes

	// guarded by writing
	parts int64   // parts numbered so far
	spare []int64 // the parts of detached attachments, which the next ones replace

	// guarded by memory.mu
	list     map[int]attachment
	count    int  // attachments added so far
	held     int  // bytes in memory
	finished bool // can be evicted from memory
	closed   bool
}

// An attachment is in memory, on disk, or lost.
type attachment struct {
	size      int
	data      []byte  // its bytes; nil: they are on disk, or lost
	parts     []int64 // the numbers of its parts on disk
	evictions int64   // disk.evictions before it was written; a change means that it is lost
	err       error   // why it was not kept, or is no longer
}

// memory is the memory that the attachments of all logs of a store share.
type memory struct {
	mu       sync.Mutex
	used     int            // bytes
	finished []*attachments // finished ones with bytes in memory, in the order of eviction
}

// makeRoom reports whether there is room for n bytes. If the disk has refused them, because of why,
// it evicts finished logs until there is; but none if that would not be enough. The caller holds
// m.mu.
func (m *memory) makeRoom(n int, why error) bool {
	room, evicted := attachedInMemory-m.used, 0
	for ; room < n && why != nil && evicted < len(m.finished); evicted++ {
		room += m.finished[evicted].held
	}
	if room < n {
		return false
	}
	for _, a := range m.finished[:evicted] {
		for i, at := range a.list {
			if at.data != nil {
				a.list[i] = attachment{err: why}
			}
		}
		m.used, a.held = m.used-a.held, 0
	}
	m.finished = slices.Delete(m.finished, 0, evicted)
	return true
}

// attachedShape gives every part its own place, so that no part replaces another one.
var attachedShape = shape{head: math.MaxInt64, ring: 1}

func (a *attachments) add(b []byte) int {
	if b == nil {
		b = []byte{}
	}
	if len(b) <= smallAttachment {
		if n, ok := a.keep(b, nil); ok {
			return n
		}
	}
	at := a.store(b)
	if at.err != nil {
		if n, ok := a.keep(b, at.err); ok {
			return n
		}
	}
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	return a.append(at)
}

// keep adds b if there is room for it in memory. why is the error of the disk that refused it, if
// one did.
func (a *attachments) keep(b []byte, why error) (n int, ok bool) {
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if !a.closed {
		if !m.makeRoom(len(b), why) {
			return 0, false
		}
		if a.finished && a.held == 0 && len(b) > 0 {
			m.finished = append(m.finished, a)
		}
		m.used, a.held = m.used+len(b), a.held+len(b)
	}
	return a.append(attachment{size: len(b), data: b}), true
}

// append adds an attachment and returns its number. The caller holds memory.mu.
func (a *attachments) append(at attachment) int {
	if a.closed {
		at = attachment{err: errDiscarded}
	}
	if a.list == nil {
		a.list = map[int]attachment{}
	}
	a.list[a.count] = at
	a.count++
	return a.count - 1
}

// detach drops an attachment. Its place, in memory or on disk, is for the next ones.
func (a *attachments) detach(n int) {
	m := a.memory
	m.mu.Lock()
	at := a.list[n]
	delete(a.list, n)
	if at.data != nil {
		m.used, a.held = m.used-at.size, a.held-at.size
		if a.held == 0 {
			m.finished = slices.DeleteFunc(m.finished, func(other *attachments) bool { return other == a })
		}
	}
	m.mu.Unlock()
	a.writing.Lock()
	defer a.writing.Unlock()
	a.spare = append(a.spare, at.parts...)
}

// store writes b to disk. The error of the attachment says why the disk refused it.
func (a *attachments) store(b []byte) attachment {
	at := attachment{size: len(b), err: ErrLimit}
	if a.disk != nil {
		at.evictions = a.disk.evictions()
		at.parts, at.err = a.write(b)
	}
	return at
}

// write writes b to disk and returns the numbers of its parts. If that fails, the next attachment
// takes the places of the parts that were written.
func (a *attachments) write(b []byte) (parts []int64, err error) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.discarded() {
		return nil, errDiscarded
	}
	for part := range slices.Chunk(b, a.size) {
		if len(a.spare) == 0 {
			a.spare = append(a.spare, a.parts)
			a.parts++
		}
		last := len(a.spare) - 1
		parts, a.spare = append(parts, a.spare[last]), a.spare[:last]
		if err := a.disk.write(parts[len(parts)-1], segment{data: part}); err != nil {
			slices.Reverse(parts) // the last one, which the disk refused, is taken last
			a.spare = append(a.spare, parts...)
			return nil, err
		}
	}
	return parts, nil
}

func (a *attachments) discarded() bool {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	return a.closed
}

func (a *attachments) read(n int) ([]byte, error) {
	at, found := a.find(n)
	switch {
	case !found:
		return nil, errDetached
	case at.err != nil:
		return nil, at.err
	case at.data != nil:
		return at.data, nil
	}
	b := make([]byte, at.size)
	numbers := at.parts
	for part := range slices.Chunk(b, a.size) {
		if _, at.err = a.disk.read(numbers[0], 0, part, 0); at.err != nil {
			break
		}
		numbers = numbers[1:]
	}
	_, found = a.find(n)
	switch { // the bytes can belong to another log or to a later attachment by now
	case a.discarded():
		return nil, errDiscarded
	case !found:
		return nil, errDetached
	case a.disk.evictions() != at.evictions:
		return nil, ErrLimit
	case at.err != nil:
		return nil, at.err
	}
	return b, nil
}

// find returns an attachment, unless it was detached.
func (a *attachments) find(n int) (at attachment, found bool) {
	a.memory.mu.Lock()
	defer a.memory.mu.Unlock()
	at, found = a.list[n]
	return at, found
}

// finish lets the attachments be evicted.
func (a *attachments) finish() {
	if a.disk != nil {
		a.disk.finish()
	}
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	a.finished = true
	if a.held > 0 {
		m.finished = append(m.finished, a)
	}
}

// discard drops all attachments, and keeps none that is added later.
func (a *attachments) discard() {
	a.drop()
	if a.disk == nil {
		return
	}
	a.writing.Lock() // or a write that is under way would take places that nothing frees
	defer a.writing.Unlock()
	a.disk.discard()
}

// drop drops all attachments from memory.
func (a *attachments) drop() {
	m := a.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	a.closed = true
	for i := range a.list {
		a.list[i] = attachment{err: errDiscarded}
	}
	m.used, a.held = m.used-a.held, 0
	m.finished = slices.DeleteFunc(m.finished, func(other *attachments) bool { return other == a })
}
