package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// attachedInMemory bounds the bytes of the attachments of all logs of a store in memory.
const attachedInMemory = 64 << 20

// Errors of attachments that are gone because their log, or they themselves, are no longer needed, or
// because a past run did not keep them on disk.
var (
	errDiscarded = errors.New("the log was discarded")
	errDetached  = errors.New("the attachment was detached")
	errGone      = errors.New("its file is gone")
	errLarge     = errors.New("its file is too large to be read")
)

// An attachment is in a file, or in memory if the disk refused it, or lost.
type attachment struct {
	path string // its file; empty: it has none
	data []byte // its bytes if they are in memory
	size int64  // bytes that it takes, in memory or on disk
	err  error  // why it was not kept, or is no longer
}

func (l *log) Attach(b []byte) int {
	l.writing.Lock() // so that its number stays free
	defer l.writing.Unlock()
	if b == nil {
		b = []byte{} // it is in memory, though it is empty
	}
	a := attachment{err: errDiscarded}
	if !l.closed {
		a = l.keep(b)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attached == nil {
		l.attached = map[int]attachment{}
	}
	l.attached[l.attachments] = a
	l.attachments++
	return l.attachments - 1
}

// keep writes b to a file. If the disk refuses it, it stays in memory if there is room. The caller
// holds l.writing.
func (l *log) keep(b []byte) attachment {
	size := int64(len(b))
	dir, err := l.directory()
	a := attachment{path: display(dir, l.attachments), size: pages(size)}
	if err == nil {
		err = l.store.take(l, a.size)
	}
	if err == nil {
		f := l.store.newFile(a.path)
		f.brief = true
		if err = f.WriteAt(b, 0); err != nil {
			f.remove()
			l.store.take(l, -a.size)
		}
	}
	l.store.wrote(err)
	switch {
	case err == nil:
		return a
	case l.store.remember(l, size, err):
		return attachment{data: b, size: size}
	}
	return attachment{err: err}
}

// display returns the path of an attachment.
func display(dir string, n int) string { return fmt.Sprintf("%s/display-%d", dir, n) }

func (l *log) Detach(n int) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(l.attached[n])
	delete(l.attached, n)
}

// drop makes room on disk or in memory. The caller holds l.mu, and l.writing if a is on disk.
func (l *log) drop(a attachment) {
	switch {
	case a.path != "":
		os.Remove(a.path)
		l.store.take(l, -a.size)
	case a.data != nil:
		l.store.remember(l, -a.size, nil)
	}
}

// dropAll makes the attachments in files lost because of why, or those in memory. The caller holds
// what drop needs.
func (l *log) dropAll(onDisk bool, why error) {
	for n, a := range l.attached {
		if onDisk && a.path != "" || !onDisk && a.data != nil {
			l.drop(a)
			l.attached[n] = attachment{err: why}
		}
	}
}

// forget makes the attachments in memory lost because of why.
func (l *log) forget(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropAll(false, why)
}

func (l *log) Attachment(n int) ([]byte, error) {
	a, found := l.findAttachment(n)
	switch {
	case !found:
		return nil, errDetached
	case a.err != nil || a.path == "":
		return a.data, a.err
	}
	var b []byte
	err := l.store.pastFile(a.path).use(func(raw rawFile) error {
		size, err := raw.Size()
		if err == nil && size > attachedInMemory {
			err = errLarge // the files of a past log can have been changed
		}
		if err == nil {
			b, err = io.ReadAll(io.NewSectionReader(raw, 0, size))
		}
		return err
	})
	if now, _ := l.findAttachment(n); err != nil && now.err != nil { // it was dropped meanwhile
		err = now.err
	} else if errors.Is(err, fs.ErrNotExist) {
		err = errGone
	}
	return b, err
}

// findAttachment returns an attachment, unless it was detached.
func (l *log) findAttachment(n int) (a attachment, found bool) {
	if l.load != nil {
		return attachment{path: display(".", n)}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a, found = l.attached[n]
	return a, found
}
