package output

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
)

// errCap means that a log has reached its cap on a file system that can't punch holes.
var errCap = errors.New("the limit of one log is reached")

// flush writes what is held to the file and reports whether nothing is held any more. The caller
// holds l.writing.
func (l *log) flush() bool {
	for len(l.held) > 0 {
		g := l.held[0]
		if _, err := l.put(&g); err != nil {
			return false
		}
		l.mu.Lock()
		if l.held = slices.Delete(l.held, 0, 1); len(l.held) == 0 {
			l.held = nil
		}
		l.mu.Unlock()
	}
	return true
}

// put writes what the file does not have of g to it, and returns how much of that it took. The
// caller holds l.writing.
func (l *log) put(g *segment) (n int, err error) {
	if err = l.makeFiles(); err == nil {
		n, err = l.write(g)
	}
	if l.refused = err; err != nil {
		l.tried = l.end
	}
	if err != errCap {
		l.store.wrote(err)
	}
	l.cutMiddle()
	return n, err
}

// makeFiles names the files. They are made when they are written. The caller holds l.writing.
func (l *log) makeFiles() error {
	if l.file != nil {
		return nil
	}
	dir, err := l.directory()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.index = l.store.newFile(dir+"/output.log"), index{file: l.store.newFile(dir + "/output.streams")}
	return nil
}

// directory returns the directory of the log's files. The caller holds l.writing.
func (l *log) directory() (dir string, err error) {
	if l.dir == "" && l.store.config.Dir != nil {
		l.dir, err = l.store.directory(l.id)
	}
	return l.dir, err
}

// write is put once the files have names. The records are written before the bytes that they label,
// so that no byte is without a label, whenever the process ends.
func (l *log) write(g *segment) (n int, err error) {
	if l.cantCut && l.stored >= l.store.shape.head+l.store.shape.tail {
		return 0, errCap
	}
	at := max(g.at, l.stored)
	off := int(at - g.at)
	b, x, records := g.data[off:], l.index, l.scratch[:0]
	add := func(cursor int64, s Stream, gone Streams) {
		if x.newest() != s || x.count == 0 {
			records = binary.LittleEndian.AppendUint64(records, uint64(x.add(cursor, s, gone)))
		}
	}
	if at > l.stored {
		add(l.stored, lost, l.gone)
	}
	pos := at
	g.eachRun(off, len(b), func(s Stream, n int) {
		add(pos, s, 0)
		pos += int64(n)
	})
	data, labels := l.data, l.labels
	more := data.extend(at, len(b)) + labels.extend(l.index.size(), len(records))
	if err := l.store.reserve(l, more); err != nil {
		return 0, err
	}
	if len(records) > 0 {
		_, err = x.file.WriteAt(records, l.index.size())
	}
	if err == nil {
		n, err = l.file.WriteAt(b, at)
	}
	if err != nil {
		x = l.accepted(records, at, n)
		data, labels = l.data, l.labels
		l.store.giveBack(l, more-data.extend(at, n)-labels.extend(l.index.size(), int(x.size()-l.index.size())))
	}
	l.data, l.labels = data, labels
	if cap(records) <= page { // a log has few labels or much output
		l.scratch = records
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index = x
	if n > 0 {
		if l.stored = at + int64(n); l.stored > l.end {
			l.grow(l.stored)
		}
	}
	return n, err
}

// accepted returns the index after a write of records and bytes of which the disk has accepted the
// n bytes at cursor at only. The records of other bytes must not stay in the file: they would seem
// to label later ones.
func (l *log) accepted(records []byte, at int64, n int) index {
	x := l.index
	for b := range slices.Chunk(records, recordSize) {
		if r := record(binary.LittleEndian.Uint64(b)); n > 0 && r.cursor() < at+int64(n) {
			x.add(r.cursor(), r.stream(), r.gone())
		}
	}
	size := x.size()
	if x.count == 0 {
		size = 0
	}
	_ = x.file.use(func(raw rawFile) error { return raw.Truncate(size) })
	return x
}

// cutMiddle cuts out of the files what is neither of the beginning nor of the end, once that is
// much. The caller holds l.writing.
func (l *log) cutMiddle() {
	c, x := &l.store.shape, l.index
	from, to := max(x.cut.To, c.head), l.stored-c.tail
	if l.file == nil || to-from < c.step {
		return
	}
	last, err := x.find(to)
	if err == nil && x.cut.To == 0 {
		x.records.From, err = x.find(c.head - 1)
		x.records.From++
	}
	if err != nil {
		return
	}
	x.cut, x.records.To = Range{c.head, to}, last
	x.gone |= l.Streams(from, to)
	err = x.writeHeader()
	l.mu.Lock()
	l.index = x
	l.gone |= x.gone
	l.loss.Cap += l.gaps.add(x.cut)
	l.mu.Unlock()
	if err != nil {
		return // the next cut punches this hole, too
	}
	l.punch(l.file, &l.data, x.cut)
	l.punch(x.file, &l.labels, Range{headerSize + x.records.From*recordSize, headerSize + x.records.To*recordSize})
}

// punch makes a hole of the pages in r and counts them no longer. The caller holds l.writing.
func (l *log) punch(f *file, s *space, r Range) {
	from, to := max(s.punched, pages(r.From)), r.To/page*page
	if from >= to {
		return
	}
	if f.use(func(raw rawFile) error { return raw.Punch(from, to-from) }) != nil {
		l.cantCut = true
		return
	}
	s.punched = to
	l.store.giveBack(l, to-from-s.holes.overlap(Range{from, to}))
}

// evict removes the files of a finished log, unless they are being written, and reports whether it
// did. The newest 4 KiB stay in memory.
func (l *log) evict() bool {
	if !l.writing.TryLock() {
		return false
	}
	defer l.writing.Unlock()
	held := l.held
	if c := l.Read(l.end-shortest, shortest); len(held) == 0 && len(c.Spans) > 0 && c.Next == l.end {
		held = []segment{{at: c.From}}
		for _, s := range c.Spans {
			held[0].append(s.Stream, s.Data, shortest)
		}
	}
	l.removeFiles(ErrLimit, held)
	return true
}

// removeFiles makes all bytes lost but those that are held from now on, because of why. The caller
// holds l.writing.
func (l *log) removeFiles(why error, held []segment) {
	set, gone := l.Streams(0, l.stored), Range{0, l.end}
	l.mu.Lock()
	data, labels := l.file, l.index.file
	if len(held) > 0 {
		gone.To = held[0].at
	}
	if more := l.gaps.add(gone); why == ErrLimit {
		l.loss.Limit += more
	}
	l.gone |= set
	l.file, l.index, l.stored, l.held = nil, index{}, 0, held
	l.mu.Unlock()
	l.data, l.labels = space{}, space{}
	if data != nil {
		data.remove()
		labels.remove()
	}
	l.attached.removeFiles(why)
	if l.dir != "" {
		os.Remove(l.dir) // it stays if it has files that are not ours
	}
	l.store.giveBack(l, l.taken)
}

// A space is what a file takes on disk: the pages up to end without those in holes.
type space struct {
	end     int64  // a multiple of page
	punched int64  // no page before this one is punched later
	holes   ranges // pages that were never written
}

// extend counts the pages of n bytes at off, which is beyond all others, and returns how many bytes
// are added.
func (s *space) extend(off int64, n int) (more int64) {
	from, to := max(s.end, off/page*page), pages(off+int64(n))
	if n == 0 || to <= from {
		return 0
	}
	s.holes.add(Range{s.end, from})
	s.end = to
	return to - from
}
