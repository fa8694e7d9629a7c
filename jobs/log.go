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
// segment is sealed: a goroutine writes it to disk, or, if that can't be written,
// it stays in memory among a few. Meanwhile the log is read and written, until too
// much waits for the disk: a slow disk slows a job down, and no reader. Segments
// are all of one size, so that a cursor tells where its bytes are, and what a read
// costs follows from the bytes it returns, not from the size of the log.
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

	spilling bool          // spillOver runs
	spilled  chan struct{} // closed and dropped when it has written something or ends; made when somebody waits
}

// maxBehind is how many segments wait for the disk before Write does.
const maxBehind = 2

// Write appends a copy of b. It does not fail: what could not be kept is counted
// in [LogStat].
func (l *Log) Write(s Stream, b []byte) {
	if len(b) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.sealed.behind >= maxBehind && !l.closed {
		l.awaitDisk()
	}
	if l.closed {
		return
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
	l.notify()
}

// seal makes the newest segment one of the sealed. The caller holds l.mu.
func (l *Log) seal() {
	l.active = l.sealed.put(l.count, l.active)
	l.count++
	if l.sealed.spill != nil && !l.spilling {
		l.spilling = true
		go l.spillOver() // the log's; ends when nothing is left to write; Close waits for it
	}
}

// spillOver writes what is sealed to disk, without the lock while it writes.
func (l *Log) spillOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for works := true; !l.closed; l.advance() {
		w, ok := l.sealed.next(works)
		if !ok {
			break
		}
		l.mu.Unlock()
		at, err := l.sealed.spill.put(&l.sealed.lease, w.revoked, w.at, w.segment)
		l.mu.Lock()
		works = l.sealed.wrote(w, at, err, l.count)
	}
	l.spilling = false
	l.advance()
}

// awaitDisk waits until spillOver, which runs, has written something or has ended.
// The caller holds l.mu, which is released meanwhile.
func (l *Log) awaitDisk() {
	if l.spilled == nil {
		l.spilled = make(chan struct{})
	}
	spilled := l.spilled
	l.mu.Unlock()
	<-spilled
	l.mu.Lock()
}

// advance wakes those who wait for the disk. The caller holds l.mu.
func (l *Log) advance() {
	if l.spilled != nil {
		close(l.spilled)
		l.spilled = nil
	}
}

// Finish marks the end of the job; what is written later is late output. When it
// returns, it is known of all that came before whether the disk took it.
func (l *Log) Finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final < 0 {
		l.final = l.end()
		l.active.clip() // most jobs write nothing more and are kept for long
		l.sealed.end()
		l.notify()
	}
	for sealed := l.count; l.spilling && l.sealed.waits(sealed); {
		l.awaitDisk()
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
	for l.spilling {
		l.awaitDisk()
	}
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
