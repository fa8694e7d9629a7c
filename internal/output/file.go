package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// maxOpen bounds the open files of a store, however many logs there are.
const maxOpen = 64

// openLimit is maxOpen, or less if the process can open few files: it needs others, too.
func openLimit() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return maxOpen
	}
	return int(min(maxOpen, max(1, r.Cur/8)))
}

// A rawFile is an open file.
type rawFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the size of the file, holes included.
	Size() (int64, error)
	// Truncate cuts the file off after that many bytes.
	Truncate(size int64) error
	// Punch gives the n bytes at off back to the disk. They read as zeros.
	Punch(off, n int64) error
}

// descriptors opens the files of logs when they are used, and closes others when too many are open.
type descriptors struct {
	open func(path string, flags int) (rawFile, error)
	uses chan struct{} // its buffer holds the uses under way: there are no more than files can be open

	mu   sync.Mutex
	idle map[*file]rawFile // those that are open and not used
}

func newDescriptors() *descriptors {
	return &descriptors{open: openFile, uses: make(chan struct{}, openLimit()), idle: map[*file]rawFile{}}
}

// A file is a file of a log. It is open while it is used, once for each use under way, and longer
// unless it is brief.
type file struct {
	path string
	set  *descriptors

	// guarded by set.mu
	flags int // the next open uses them
	brief bool
}

// use calls do with the open file.
func (f *file) use(do func(rawFile) error) error {
	f.set.uses <- struct{}{}
	defer func() { <-f.set.uses }()
	raw, err := f.acquire()
	if err != nil {
		return err
	}
	defer f.release(raw)
	return do(raw)
}

func (f *file) acquire() (raw rawFile, err error) {
	d := f.set
	d.mu.Lock()
	defer d.mu.Unlock()
	if raw = d.idle[f]; raw != nil {
		delete(d.idle, f)
		return raw, nil
	}
	if len(d.idle)+len(d.uses) > cap(d.uses) {
		d.closeOne()
	}
	raw, err = d.open(f.path, f.flags)
	if full := errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE); full && d.closeOne() {
		raw, err = d.open(f.path, f.flags)
	}
	if err == nil {
		f.flags &^= os.O_CREATE | os.O_EXCL
	}
	return raw, err
}

func (f *file) release(raw rawFile) {
	d := f.set
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.brief || d.idle[f] != nil {
		raw.Close()
		return
	}
	d.idle[f] = raw
}

// closeOne closes a file that is not used, and reports whether there was one. The caller holds d.mu.
func (d *descriptors) closeOne() bool {
	for f, raw := range d.idle {
		raw.Close()
		delete(d.idle, f)
		return true
	}
	return false
}

// remove removes the file. Readers that have it open can still read it.
func (f *file) remove() {
	d := f.set
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.flags&os.O_CREATE == 0 { // else it can be a file that is not ours
		os.Remove(f.path)
	}
	f.brief = true
	if raw := d.idle[f]; raw != nil {
		raw.Close()
		delete(d.idle, f)
	}
}

func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.use(func(raw rawFile) (err error) {
		n, err = raw.ReadAt(b, off)
		return err
	})
	return n, err
}

func (f *file) size() (n int64, err error) {
	err = f.use(func(raw rawFile) (err error) {
		n, err = raw.Size()
		return err
	})
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) error {
	return f.use(func(raw rawFile) error {
		_, err := raw.WriteAt(b, off)
		return err
	})
}

func (f *file) truncate(size int64) error {
	return f.use(func(raw rawFile) error { return raw.Truncate(size) })
}

// punch makes a hole of the pages in r.
func (f *file) punch(r Range) error {
	if hole(r) == 0 {
		return nil
	}
	return f.use(func(raw rawFile) error { return raw.Punch(pages(r.From), hole(r)) })
}

// A diskFile is a [rawFile] on a real disk.
type diskFile struct{ *os.File }

func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// openFile opens a file as os.OpenFile does, and makes the directory of a file that it creates.
func openFile(path string, flags int) (rawFile, error) {
	if flags&os.O_CREATE != 0 {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
	}
	// A named pipe in the file's place must not block the open.
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("opening %s: it is not a regular file", path)
	}
	return diskFile{f}, nil
}
