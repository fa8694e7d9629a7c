package output

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A segmentLog is a [Log] of segments of one size, so that a cursor says where its bytes are, and
// the cost of a read depends on the bytes it returns and not on the size of the log.
//
// The newest bytes gather in memory. When they fill a segment and more come, the segment is sealed:
// a goroutine writes it to disk. If the disk refuses it, it stays in memory among a few. Reads and
// writes continue meanwhile, until too many segments wait for the disk: a slow disk slows the
// writer down, but no reader.
type segmentLog struct {
	size     int // bytes in a segment
	attached attachments

	mu      sync.Mutex
	active  segment // the newest one, after the sealed ones
	count   int64   // segments that were sealed
	sealed  sealed
	final   int64 // -1 before Finish
	last    time.Time
	times   []timed       // the newest writes, a second apart; empty after Finish
	closed  bool          // Discard was called: writes are ignored
	changed chan struct{} // closed and dropped at a write; made when a reader waits

	flushing bool // flush runs
	// flushed is closed and dropped after each write of flush and at its end. It is made when a
	// caller waits.
	flushed chan struct{}
}

// A timed is a cursor and when the byte there was written.
type timed struct {
	at     time.Time
	cursor int64
}

// maxBacklog is how many segments can wait for the disk before Write waits for it. Without it, a
// program that prints faster than the disk writes would fill the memory.
const maxBacklog = 2

// newLog returns a log that keeps maxHeld sealed segments in memory, apart from those that wait for
// the disk. Without a disk, maxHeld is all of shape.
func newLog(size int, shape shape, maxHeld int, disk disk, buffers *sync.Pool) *segmentLog {
	return &segmentLog{size: size, final: -1, sealed: sealed{
		size: size, shape: shape, maxHeld: maxHeld, disk: disk, buffers: buffers, writing: none,
	}}
}

func (l *segmentLog) Attach(b []byte) int { return l.attached.add(b) }

func (l *segmentLog) Detach(n int) { l.attached.detach(n) }

func (l *segmentLog) Attachment(n int) ([]byte, error) { return l.attached.read(n) }

func (l *segmentLog) Write(s Stream, b []byte) (at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.sealed.backlog >= maxBacklog && !l.closed && len(b) > 0 {
		l.awaitFlush()
	}
	at = l.end()
	if l.closed || len(b) == 0 {
		return at
	}
	for len(b) > 0 {
		if len(l.active.data) == l.size {
			l.seal()
		}
		n := min(len(b), l.size-len(l.active.data))
		l.active.append(s, b[:n], l.size)
		b = b[n:]
	}
	l.last = time.Now()
	l.note(timed{l.last, at})
	l.notify()
	return at
}

// note remembers when a write came, unless it remembers a write of the same second, and forgets what
// is older than needed. The caller holds l.mu.
func (l *segmentLog) note(t timed) {
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

func (l *segmentLog) Before(t time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.end()
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

// seal adds the newest segment to the sealed ones and begins another. The caller holds l.mu.
func (l *segmentLog) seal() {
	l.active = l.sealed.add(l.count, l.active)
	l.count++
	if l.sealed.disk != nil && !l.flushing {
		l.flushing = true
		go l.flush() // owned by the log; ends when nothing is left to write; Discard waits for it
	}
}

// flush writes sealed segments to disk, and releases the lock during each write.
func (l *segmentLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for works := true; !l.closed; l.notifyFlushed() {
		w, ok := l.sealed.next(works)
		if !ok {
			break
		}
		l.mu.Unlock()
		err := l.sealed.disk.write(w.number, w.segment)
		l.mu.Lock()
		works = l.sealed.writeDone(w, err, l.count)
	}
	l.flushing = false
	l.notifyFlushed()
}

// awaitFlush waits until flush, which runs, has written something or has ended. The caller holds
// l.mu, which is released meanwhile.
func (l *segmentLog) awaitFlush() {
	if l.flushed == nil {
		l.flushed = make(chan struct{})
	}
	flushed := l.flushed
	l.mu.Unlock()
	<-flushed
	l.mu.Lock()
}

// notifyFlushed wakes the callers of awaitFlush. The caller holds l.mu.
func (l *segmentLog) notifyFlushed() {
	if l.flushed != nil {
		close(l.flushed)
		l.flushed = nil
	}
}

func (l *segmentLog) Finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final < 0 {
		l.final, l.times = l.end(), nil
		l.active.clip() // most logs get no more bytes and are kept for long
		l.sealed.finish()
		l.attached.finish()
		l.notify()
	}
	for count := l.count; l.flushing && l.sealed.untried(count); {
		l.awaitFlush()
	}
}

func (l *segmentLog) Flush() {}

// longestShort is how many bytes of a log stay in memory until it is flushed or more come.
const longestShort = 4 << 10

func (l *segmentLog) Short() ([]Span, bool) {
	st := l.Stat()
	if st.Final < 0 || st.End > longestShort {
		return nil, false
	}
	return l.Read(0, longestShort).Spans, true
}

func (l *segmentLog) Wait(ctx context.Context, cursor int64) error {
	for {
		l.mu.Lock()
		if l.end() > cursor || l.final >= 0 || l.closed {
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

func (l *segmentLog) Stat() Stat {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed.applyEvictions(l.count)
	st := Stat{End: l.end(), Final: l.final, Loss: l.sealed.loss, Last: l.last}
	for _, g := range l.sealed.lost {
		r := Range{g.from * int64(l.size), g.to * int64(l.size)}
		st.Gaps = append(st.Gaps, r)
		st.Dropped += r.To - r.From
	}
	return st
}

func (l *segmentLog) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.flushing {
		l.awaitFlush()
	}
	l.sealed.discard(l.count)
	l.attached.discard()
	l.notify()
}

// end returns the number of bytes written. The caller holds l.mu.
func (l *segmentLog) end() int64 { return l.count*int64(l.size) + int64(len(l.active.data)) }

// notify wakes the callers of Wait. The caller holds l.mu.
func (l *segmentLog) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
