package output

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// attachedInMemory bounds the bytes of the attachments of all logs of a store in memory.
const attachedInMemory = 64 << 20

// Errors of attachments that are gone because their log, or they themselves, are no longer needed.
var (
	errDiscarded = errors.New("the log was discarded")
	errDetached  = errors.New("the attachment was detached")
)

// attachments are the attachments of one log. Each is a file. If the disk refuses it, it is in
// memory: the logs that were finished first make room for it there.
type attachments struct {
	log *log

	// guarded by store.memory.mu
	list     map[int]attachment
	count    int  // attachments added so far
	held     int  // bytes in memory
	finished bool // can be evicted from memory
}

// An attachment is in memory, in a file, or lost.
type attachment struct {
	size int
	data []byte // its bytes if they are in memory
	file *file
	err  error // why it was not kept, or is no longer
}

// memory is the memory that the attachments of all logs of a store share.
type memory struct {
	mu       sync.Mutex
	used     int            // bytes
	finished []*attachments // finished ones with bytes in memory, in the order of eviction
}

// makeRoom reports whether there is room for n bytes. It evicts finished logs, which lose their
// attachments because of why, until there is; but none if that would not be enough. The caller
// holds m.mu.
func (m *memory) makeRoom(n int, why error) bool {
	room, evicted := attachedInMemory-m.used, 0
	for ; room < n && evicted < len(m.finished); evicted++ {
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

func (l *log) Attach(b []byte) int {
	l.writing.Lock() // so that its number stays free
	defer l.writing.Unlock()
	if b == nil {
		b = []byte{}
	}
	a := &l.attached
	at := a.write(b)
	m := &l.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case l.closed:
		at = attachment{err: errDiscarded}
	case at.err != nil && m.makeRoom(len(b), at.err):
		if a.finished && a.held == 0 && len(b) > 0 {
			m.finished = append(m.finished, a)
		}
		m.used, a.held = m.used+len(b), a.held+len(b)
		at = attachment{size: len(b), data: b}
	}
	if a.list == nil {
		a.list = map[int]attachment{}
	}
	a.list[a.count] = at
	a.count++
	return a.count - 1
}

// write writes b to a file. The error of the attachment says why the disk refused it. The caller
// holds l.writing.
func (a *attachments) write(b []byte) attachment {
	l, size := a.log, pages(int64(len(b)))
	if l.store.config.Dir == nil || l.closed {
		return attachment{err: ErrLimit}
	}
	dir, err := l.directory()
	if err == nil {
		err = l.store.reserve(l, size)
	}
	at := attachment{size: len(b)}
	if err == nil {
		at.file = l.store.newFile(display(dir, a.count))
		at.file.brief = true
		if _, err = at.file.WriteAt(b, 0); err != nil {
			at.file.remove()
			l.store.giveBack(l, size)
		}
	}
	l.store.wrote(err)
	if err != nil {
		return attachment{err: err}
	}
	return at
}

// display returns the path of an attachment.
func display(dir string, n int) string { return fmt.Sprintf("%s/display-%d", dir, n) }

func (l *log) Detach(n int) {
	l.writing.Lock()
	defer l.writing.Unlock()
	m, a := &l.store.memory, &l.attached
	m.mu.Lock()
	defer m.mu.Unlock()
	at := a.list[n]
	delete(a.list, n)
	if at.file != nil {
		at.file.remove()
		l.store.giveBack(l, pages(int64(at.size)))
	}
	if at.data != nil {
		m.used, a.held = m.used-at.size, a.held-at.size
		if a.held == 0 {
			m.leave(a)
		}
	}
}

// leave takes a off those that can be evicted. The caller holds m.mu.
func (m *memory) leave(a *attachments) {
	m.finished = slices.DeleteFunc(m.finished, func(other *attachments) bool { return other == a })
}

func (l *log) Attachment(n int) ([]byte, error) {
	at, found := l.attached.find(n)
	switch {
	case !found:
		return nil, errDetached
	case at.err != nil:
		return nil, at.err
	case at.data != nil:
		return at.data, nil
	}
	if l.past != nil {
		return readPast(at.file)
	}
	b := make([]byte, at.size)
	_, err := at.file.ReadAt(b, 0)
	if at, found = l.attached.find(n); err != nil && found && at.err != nil { // it was dropped meanwhile
		err = at.err
	}
	return b, err
}

// find returns an attachment, unless it was detached.
func (a *attachments) find(n int) (at attachment, found bool) {
	m := &a.log.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.log.past != nil {
		return attachment{file: a.log.pastFile(display(a.log.dir, n))}, true
	}
	at, found = a.list[n]
	return at, found
}

// finish lets the attachments be evicted.
func (a *attachments) finish() {
	m := &a.log.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	a.finished = true
	if a.held > 0 {
		m.finished = append(m.finished, a)
	}
}

// removeFiles makes the attachments in files lost because of why. The caller holds log.writing.
func (a *attachments) removeFiles(why error) {
	m := &a.log.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, at := range a.list {
		if at.file != nil {
			at.file.remove()
			a.list[i] = attachment{err: why}
		}
	}
}

// discard drops all attachments from memory. None that is added later is kept, because the log is
// closed.
func (a *attachments) discard() {
	m := &a.log.store.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range a.list {
		a.list[i] = attachment{err: errDiscarded}
	}
	m.used, a.held = m.used-a.held, 0
	m.leave(a)
}
