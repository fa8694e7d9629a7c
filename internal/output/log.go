package output

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A log is a [Log] whose oldest bytes are in a file, whose offset is the cursor, and whose newest
// bytes are in segments in memory. Up to 4 KiB stay in memory until they are flushed; from then on
// each write goes to the file. The bytes that the disk refuses gather in memory, where the
// beginning and the newest bytes have room.
type log struct {
	store *store
	id    string

	// Of a log of a past run. load reads the state from the files; nil: this is a log of this run.
	load   func()
	killed bool // the state is not known before

	// guarded by store.mu
	taken      int64 // bytes on disk
	remembered int64 // bytes of attachments in memory

	// writing is held while the files change, and readers don't wait for it. It is locked before
	// any other lock. Only an eviction locks that of another log, and does not wait for it.
	writing sync.Mutex

	// guarded by writing
	dir     string // empty: no file was needed yet
	counted int64  // bytes on disk of output.log and output.streams
	refused error  // why the disk refused the last write; nil: it didn't
	tried   int64  // the end when the disk refused it
	cantCut bool   // the file system can't punch holes
	skipped bool   // Skip was called
	scratch []byte // encoded records

	mu sync.Mutex // is held briefly, never while the disk works

	// These change only while both writing and mu are held, so that one of them is enough to read
	// them.
	file   *file     // output.log; nil: there are no files
	index  index     // output.streams
	stored int64     // bytes of the file, those that are gone included
	held   []segment // the bytes from stored on, oldest first
	end    int64     // bytes ever written
	final  int64     // -1 before Finish
	closed bool      // Discard was called, or the run has ended: writes are ignored

	attached    map[int]attachment
	attachments int // attachments added so far

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

func (l *log) Write(s Stream, b []byte) (at int64) {
	l.writing.Lock()
	defer l.writing.Unlock()
	at = l.end
	if l.closed || len(b) == 0 {
		return at
	}
	if l.skipped && l.crowded() {
		l.skip(at+int64(len(b)), Loss{Cap: int64(len(b))})
		return at
	}
	if !l.due(len(b)) || !l.flush() || l.put(&segment{at: at, data: b, last: s}) != nil {
		l.hold(s, b)
	}
	return at
}

func (l *log) Skip(to int64, why Loss) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.closed && to > l.end {
		l.skipped = true
		l.skip(to, why)
	}
}

// skip is Skip for a caller that holds l.writing.
func (l *log) skip(to int64, why Loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.gaps.add(Range{l.end, to})
	count := func(n int64, sum *int64) {
		n = min(max(n, 0), left)
		*sum += n
		left -= n
	}
	count(why.Cap, &l.loss.Cap)
	count(why.Disk, &l.loss.Disk)
	count(why.Limit, &l.loss.Limit)
	l.gone |= allStreams
	l.grow(to)
}

// mostGaps bounds the gaps of a log with Skip, because each [Stat] lists them. The middle that is cut out takes
// gaps with it, so that a log has a few hundred.
const mostGaps = 4096

// crowded reports whether a write would follow one gap too many: then it is dropped, too.
func (l *log) crowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.gaps)
	return n >= mostGaps && l.gaps[n-1].To == l.end
}

// due reports whether n more bytes should go to the file, with all before them. The caller holds
// l.writing.
func (l *log) due(n int) bool {
	end := l.end + int64(n)
	if l.refused != nil {
		return end-l.tried >= int64(l.store.shape.segment/4)
	}
	return l.index.count > 0 || end > l.store.shape.short || l.skipped
}

// hold appends b in memory. Beyond the limit there, the oldest segment is lost that is not of the
// beginning. The caller holds l.writing.
func (l *log) hold(s Stream, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, at := &l.store.shape, l.end
	for len(b) > 0 {
		if n := len(l.held); n == 0 || len(l.held[n-1].data) >= c.segment || l.held[n-1].end() != at {
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
	if i < 0 { // Skip has made short segments: the first and the last have the beginning and the newest bytes
		i = len(l.held) / 2
	}
	g := l.held[i]
	l.gone |= g.set
	more := l.gaps.add(Range{g.at, g.end()})
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

func (l *log) Flush() {
	l.writing.Lock()
	defer l.writing.Unlock()
	if !l.closed {
		l.flush()
	}
}

func (l *log) Finish() {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.final >= 0 {
		return
	}
	if !l.closed && (l.index.count > 0 || l.end > l.store.shape.short || l.skipped) {
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
	l.forget(errDiscarded)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.notify()
}

// note remembers when a write came, unless it remembers a write of the same second. The newest
// twelve are those of Recent and of the second before it. The caller holds l.mu.
func (l *log) note(t timed) {
	n := len(l.times)
	if l.final < 0 && (n == 0 || t.at.Sub(l.times[n-1].at) >= time.Second) {
		l.times = append(l.times[max(0, n-11):], t)
	}
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
		more := l.More(cursor)
		if more == readable {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readable is what [log.More] returns if there is something to read. It is closed.
var readable = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (l *log) More(cursor int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end > cursor || l.final >= 0 || l.closed {
		return readable
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
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
	return Stat{End: l.end, Final: l.final, Dropped: l.gaps.size(), Gaps: slices.Clone(l.gaps), Loss: l.loss, Last: l.last}
}
