package jobs

import (
	"context"
	"sync"
	"time"
)

// A Stream labels output.
type Stream byte

// The streams of a job.
const (
	Stdout Stream = iota
	Stderr
	TTY
)

// String names the stream.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "tty"
}

// A Span is output of one stream.
type Span struct {
	Stream Stream
	Data   []byte
}

// A Chunk is a piece of a log without gaps: its spans hold the bytes From to
// Next, and no two neighbours are of one stream.
type Chunk struct {
	Spans   []Span
	From    int64
	Next    int64 // the cursor to read from next
	Dropped int64 // bytes between the cursor asked for and From: they are gone
}

// A Range is the bytes of a log from From up to, without, To.
type Range struct{ From, To int64 }

// A LogStat says how a log stands.
type LogStat struct {
	End     int64   // bytes ever written
	Final   int64   // End when the job ended, -1 before; later bytes are late output
	Dropped int64   // bytes that are gone
	Gaps    []Range // where they were
	Loss    Loss    // Dropped by what took them; without those of a job that was forgotten
}

// A Log is the output of one job: bytes with a stream label, in order of arrival.
// A cursor is a count of bytes ever written, so it stays true when old bytes are
// dropped. Writing never waits for a reader, and reading drains nothing.
//
// The newest bytes gather in memory. Once they fill a segment and more come, the
// segment is sealed: it goes to disk, or, if that can't be written, stays in
// memory among a few. Segments are all of one size, so that a cursor tells where
// its bytes are, and what a read costs follows from the bytes it returns, not from
// the size of the log.
//
// The first segments have a place each, for the first half of the cap; all later
// ones share the places of the other half as a ring.
type Log struct {
	size int // bytes in a segment

	mu      sync.Mutex
	active  segment // the newest one, behind the sealed ones
	count   int64   // segments that were sealed
	sealed  archive
	final   int64 // -1 before Finish
	last    time.Time
	closed  bool
	changed chan struct{} // closed and dropped at a write; made when somebody waits
}

// Write appends a copy of b. It does not fail: what could not be kept is counted
// in [LogStat].
func (l *Log) Write(s Stream, b []byte) {
	if len(b) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for len(b) > 0 {
		if len(l.active.data) == l.size {
			l.active = l.sealed.put(l.count, l.active)
			l.count++
		}
		n := min(len(b), l.size-len(l.active.data))
		l.active.append(s, b[:n], l.size)
		b = b[n:]
	}
	l.last = time.Now()
	l.notify()
}

// Finish marks the end of the job; what is written later is late output.
func (l *Log) Finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final < 0 {
		l.final = l.end()
		l.active.clip() // most jobs write nothing more and are kept for long
		l.sealed.end()
		l.notify()
	}
}

// Wait blocks until there is something to read at cursor, the log is finished or
// closed, or ctx is done; it returns ctx's cause in the last case.
func (l *Log) Wait(ctx context.Context, cursor int64) error {
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

// Stat says how the log stands.
func (l *Log) Stat() LogStat {
	st, _ := l.stat()
	return st
}

// stat also tells when the last output came.
func (l *Log) stat() (LogStat, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed.settle(l.count)
	st := LogStat{End: l.end(), Final: l.final, Loss: l.sealed.loss}
	for _, g := range l.sealed.lost {
		r := Range{g.from * int64(l.size), g.to * int64(l.size)}
		st.Gaps = append(st.Gaps, r)
		st.Dropped += r.To - r.From
	}
	return st, l.last
}

// Close forgets what was sealed, which leaves a gap, and ignores what is still
// written.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.sealed.close(l.count)
	l.notify()
}

// end returns the number of bytes written. The caller holds l.mu.
func (l *Log) end() int64 { return l.count*int64(l.size) + int64(len(l.active.data)) }

// notify wakes those who wait. The caller holds l.mu.
func (l *Log) notify() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}
