package output

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// errCap means that a log has reached its cap on a file system that can't punch holes.
var errCap = errors.New("the limit of one log is reached")

// flush writes what is held to the file and reports whether nothing is held any more. The caller
// holds l.writing.
func (l *log) flush() bool {
	for len(l.held) > 0 {
		if l.put(&l.held[0]) != nil {
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

// put writes g to the file, all or nothing. The caller holds l.writing.
func (l *log) put(g *segment) error {
	err := l.makeFiles()
	if err == nil {
		err = l.write(g)
	}
	if l.refused = err; err != nil {
		l.tried = l.end
	}
	l.store.wrote(err)
	l.cutMiddle()
	return err
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

// directory returns the directory of the log's files, which may not exist yet. The caller holds
// l.writing.
func (l *log) directory() (string, error) {
	s := l.store
	switch {
	case l.dir != "":
		return l.dir, nil
	case s.config.Dir == nil:
		return "", errCap
	}
	dir, err := s.config.Dir()
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir, l.dir = dir, filepath.Join(dir, l.id)
	return l.dir, nil
}

// write is put once the files have names. The records are written before the bytes that they label,
// so that no byte is without a label, whenever the process ends.
func (l *log) write(g *segment) error {
	most := l.store.shape.head + l.store.shape.tail
	if gap := (Range{l.stored, g.at}); g.at-l.stored > most && !l.cantCut && g.end() <= l.store.largest {
		l.cantCut = l.file.punch(gap) != nil // without holes, the gap would take space
	}
	if l.cantCut && max(l.stored, g.at-l.stored) >= most || g.end() > l.store.largest {
		return errCap
	}
	x, records := l.index, l.scratch[:0]
	add := func(cursor int64, s Stream) {
		if x.newest() != s || x.count == 0 {
			records = binary.LittleEndian.AppendUint64(records, uint64(x.add(cursor, s)))
		}
	}
	if g.at > l.stored {
		add(l.stored, lost)
	}
	end := g.at
	g.eachRun(0, len(g.data), func(s Stream, n int) {
		add(end, s)
		end += int64(n)
	})
	if cap(records) <= page { // a log has few labels or much output
		l.scratch = records
	}
	if err := l.count(end, x.count); err != nil {
		return err
	}
	if err := l.writeFiles(records, g.data, g.at); err != nil {
		l.count(l.stored, l.index.count)
		if errors.Is(err, syscall.EFBIG) && g.at > l.stored {
			return errCap // the file system has no such offset, and is none the worse for it
		}
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index, l.stored = x, end
	if end > l.end {
		l.grow(end)
	}
	return nil
}

// writeFiles writes records and then the bytes at cursor at. After an error it removes the part
// that the disk has: the records would seem to label later bytes.
func (l *log) writeFiles(records, b []byte, at int64) (err error) {
	size := l.index.size()
	if len(records) > 0 {
		err = l.index.file.WriteAt(records, size)
	}
	if err == nil {
		err = l.file.WriteAt(b, at)
	}
	if err != nil {
		l.file.truncate(l.stored)
		l.index.file.truncate(size)
	}
	return err
}

// cutMiddle cuts out of the files what is neither of the beginning nor of the end, once that is
// much. The caller holds l.writing.
func (l *log) cutMiddle() {
	c, x := &l.store.shape, l.index
	from, to := max(x.cut.To, c.head), l.stored-c.tail
	if l.file == nil || to-from < c.step {
		return
	}
	first, err := x.find(c.head - 1)
	last, lastErr := x.find(to)
	if err != nil || lastErr != nil {
		return
	}
	x.cut, x.records = Range{c.head, to}, Range{first + 1, last}
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
	l.cantCut = l.file.punch(x.cut) != nil || x.file.punch(x.labels()) != nil
	l.count(l.stored, x.count)
}

// count makes the store count what the files take on disk when they have bytes up to end and that
// many records: all pages but those in gaps. The caller holds l.writing.
func (l *log) count(end, records int64) error {
	taken := pages(end)
	if end > 0 {
		taken += pages(headerSize + records*recordSize)
	}
	l.mu.Lock()
	if !l.cantCut {
		for _, g := range l.gaps {
			taken -= hole(Range{g.From, min(g.To, end)})
		}
		taken -= hole(l.index.labels())
	}
	l.mu.Unlock()
	err := l.store.take(l, taken-l.counted)
	if err == nil {
		l.counted = taken
	}
	return err
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
	l.file, l.index, l.stored, l.held, l.counted = nil, index{}, 0, held, 0
	l.dropAll(true, why)
	l.mu.Unlock()
	if data != nil {
		data.remove()
		labels.remove()
	}
	if l.dir != "" {
		os.Remove(l.dir) // it stays if it has files that are not ours
	}
	l.store.take(l, -l.taken)
}
