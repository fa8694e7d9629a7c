package output

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"sync"
	"time"
)

// A log is a [Log] whose oldest bytes are in a file, whose offset is the cursor, and whose newest
// bytes are in segments in memory. Up to 4 KiB stay in memory until they are flushed; from then on
// each write goes to the file. The bytes that the disk refuses gather in memory, where the beginning
// and the newest bytes have room.
type log struct {
	store    *store
	id       string
	attached attachments
	past     *past // nil: this is a log of this run

	taken int64 // bytes on disk; guarded by store.mu

	// writing is held by whoever changes the files, and readers don't wait for it. It is locked before
	// any other lock. Only an eviction locks that of another log, and does not wait for it.
	writing sync.Mutex

	// guarded by writing
	dir     string // empty: no file was needed yet
	data    space  // the space of output.log
	labels  space  // the space of output.streams
	refused error  // why the disk refused the last write; nil: it didn't
	tried   int64  // the end when the disk refused it
	cantCut bool   // the file system can't punch holes
	scratch []byte // encoded records

	mu sync.Mutex // is held briefly, never while the disk works

	// These change only while both writing and mu are held, so that one of them is enough to read them.
	file   *file     // output.log; nil: there are no files
	index  index     // output.streams
	stored int64     // bytes of the file, those that are gone included
	held   []segment // the bytes from stored on, oldest first
	end    int64     // bytes ever written
	final  int64     // -1 before Finish
	closed bool      // Discard was called, or the run has ended: writes are ignored

	// guarded by mu
	gaps    ranges
	loss    Loss
	gone    Streams // the streams of the gaps
	last    time.Time
	times   []timed       // the newest writes, a second apart; empty after Finish
	changed chan struct{} // closed and dropped at a write; made when a reader waits
}

// A timed is a cursor and when the byte there was written.
type timed struct {
	at     time.Time
	cursor int64
}

// errCap means that a log has reached its cap on a file system that can't punch holes.
var errCap = errors.New("the limit of one log is reached")

func (l *log) Write(s Stream, b []byte) (at int64) {
	l.writing.Lock()
	defer l.writing.Unlock()
	at = l.end
	if l.closed || len(b) == 0 {
		return at
	}
	if l.due(len(b)) && l.flush() {
		for n := 1; n > 0 && len(b) > 0; b = b[n:] {
			part := b[:min(len(b), segmentSize)]
			n, _ = l.put(&segment{at: l.end, data: part, last: s})
		}
	}
	if len(b) > 0 {
		l.hold(s, b)
	}
	return at
}

// due reports whether n more bytes should go to the file, with all before them. The caller holds
// l.writing.
func (l *log) due(n int) bool {
	switch end := l.end + int64(n); {
	case l.store.config.Dir == nil:
		return false
	case l.refused != nil:
		return end-l.tried >= int64(l.store.shape.segment/4)
	default:
		return l.index.count > 0 || end > l.store.shape.short
	}
}

// hold appends b in memory. Beyond the limit there, the oldest segment is lost that is not of the
// beginning. The caller holds l.writing.
func (l *log) hold(s Stream, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, at := &l.store.shape, l.end
	for len(b) > 0 {
		if n := len(l.held); n == 0 || len(l.held[n-1].data) >= c.segment {
			if n >= c.held {
				l.dropHeld()
			}
			l.held = append(l.held, segment{at: at})
		}
		g := &l.held[len(l.held)-1]
		n := min(len(b), c.segment-len(g.data))
		g.append(s, b[:n], c.segment)
		at, b = at+int64(n), b[n:]
	}
	l.grow(at)
}

// dropHeld makes a segment in memory lost. The caller holds l.writing and l.mu.
func (l *log) dropHeld() {
	i := slices.IndexFunc(l.held, func(g segment) bool { return g.at >= l.store.shape.front })
	g := l.held[i]
	l.gone |= g.set
	more := l.gaps.add(Range{max(g.at, l.stored), g.end()})
	switch l.refused {
	case nil, errCap:
		l.loss.Cap += more
	case ErrLimit:
		l.loss.Limit += more
	default:
		l.loss.Disk += more
	}
	l.held = slices.Delete(l.held, i, i+1)
}

// grow makes bytes up to end readable. The caller holds l.writing and l.mu.
func (l *log) grow(end int64) {
	l.last = time.Now()
	l.note(timed{l.last, l.end})
	l.end = end
	l.notify()
}

// flush writes what is held to the file and reports whether nothing is held any more. The caller
// holds l.writing.
func (l *log) flush() bool {
	for len(l.held) > 0 {
		g := l.held[0]
		if _, err := l.put(&g); err != nil {
			return false
		}
		l.mu.Lock()
		l.held = slices.Delete(l.held, 0, 1)
		l.mu.Unlock()
	}
	l.held = nil
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
// n bytes at cursor at only. The records of other bytes must not stay in the file: they would seem to
// label later ones.
func (l *log) accepted(records []byte, at int64, n int) index {
	x := l.index
	for b := range slices.Chunk(records, recordSize) {
		if r := record(binary.LittleEndian.Uint64(b)); n > 0 && r.cursor() < at+int64(n) {
			x.add(r.cursor(), r.stream(), r.gone())
		}
	}
	_ = x.file.use(func(raw rawFile) error { return raw.Truncate(x.size()) })
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

func (l *log) Flush() {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.store.config.Dir != nil && !l.closed {
		l.flush()
	}
}

func (l *log) Finish() {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.final >= 0 {
		return
	}
	if l.store.config.Dir != nil && !l.closed && (l.index.count > 0 || l.end > l.store.shape.short) {
		l.flush()
	}
	l.mu.Lock()
	l.final, l.times, l.scratch = l.end, nil, nil
	for i := range l.held {
		l.held[i].clip() // most logs get no more bytes and are kept for long
	}
	l.notify()
	l.mu.Unlock()
	l.store.finish(l)
	l.attached.finish()
}

func (l *log) Short() ([]Span, bool) {
	l.mu.Lock()
	short := l.final >= 0 && l.end <= shortest && l.index.count == 0 && len(l.gaps) == 0
	l.mu.Unlock()
	if !short {
		return nil, false
	}
	return l.Read(0, shortest).Spans, true
}

func (l *log) Discard() {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.closed {
		return
	}
	l.removeFiles(errDiscarded, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.attached.discard()
	l.notify()
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

// isFinished reports whether Finish was called. The caller holds l.writing.
func (l *log) isFinished() bool { return l.final >= 0 }

// note remembers when a write came, unless it remembers a write of the same second, and forgets what
// is older than needed. The caller holds l.mu.
func (l *log) note(t timed) {
	n := len(l.times)
	if l.final >= 0 || n > 0 && t.at.Sub(l.times[n-1].at) < time.Second {
		return
	}
	old := 0
	for old+1 < n && t.at.Sub(l.times[old+1].at) > Recent {
		old++
	}
	l.times = append(slices.Delete(l.times, 0, old), t)
}

func (l *log) Before(t time.Time) int64 {
	l.ready(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.end
	if !l.last.After(t) {
		return end
	}
	for _, each := range slices.Backward(l.times) {
		switch {
		case !each.at.Add(time.Second).After(t): // l.times has later writes separately
			return end
		case !each.at.After(t):
			return each.cursor
		}
		end = each.cursor
	}
	return 0
}

func (l *log) Wait(ctx context.Context, cursor int64) error {
	for {
		l.mu.Lock()
		if l.end > cursor || l.final >= 0 || l.closed {
			l.mu.Unlock()
			return nil
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notify wakes the callers of Wait. The caller holds l.mu.
func (l *log) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

func (l *log) Stat() Stat {
	l.ready(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	st := Stat{End: l.end, Final: l.final, Gaps: slices.Clone(l.gaps), Loss: l.loss, Last: l.last}
	for _, g := range l.gaps {
		st.Dropped += g.To - g.From
	}
	return st
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
