package output

import (
	"errors"
	"io"
	"io/fs"
	"slices"
)

func (l *log) Read(cursor int64, limit int) Chunk { return l.read(cursor, limit, nil) }

func (l *log) ReadInto(cursor int64, b []byte) Chunk { return l.read(cursor, len(b), b) }

// read is Read, into b if it is not nil.
func (l *log) read(cursor int64, limit int, b []byte) Chunk {
	l.ready(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	cursor = min(max(cursor, 0), l.end)
	for {
		from, to := l.gaps.free(cursor)
		c := Chunk{From: from, Next: from, Dropped: from - cursor}
		n := int(min(int64(max(limit, 0)), min(to, l.end)-from))
		into := b
		if into == nil {
			into = make([]byte, n)
		}
		for got := 1; got > 0 && c.Next < from+int64(n); {
			got = l.readOn(&c, into[c.Next-from:n])
		}
		if c.Next == from && n > 0 {
			continue // the bytes were lost meanwhile, so there is a gap now
		}
		for i := range c.Spans {
			// Without the clip, an append to one span would overwrite the next.
			c.Spans[i].Data = slices.Clip(c.Spans[i].Data)
		}
		return c
	}
}

// readOn appends the next bytes to c, in b, and returns how many it got: none if they were lost while
// the lock was released to read from disk. The caller holds l.mu.
func (l *log) readOn(c *Chunk, b []byte) int {
	if c.Next < l.stored {
		return l.readFile(c, b)
	}
	i := l.heldAt(c.Next)
	if i < 0 {
		return 0
	}
	g := &l.held[i]
	off := int(c.Next - g.at)
	n := copy(b, g.data[off:])
	g.eachRun(off, n, c.adder(b))
	return n
}

// heldAt returns the index of the segment in memory that has the byte at cursor, or -1. The caller
// holds l.mu.
func (l *log) heldAt(cursor int64) int {
	return slices.IndexFunc(l.held, func(g segment) bool { return g.at <= cursor && cursor < g.end() })
}

// readFile appends bytes of the file to c, in b, and returns how many it got. The caller holds
// l.mu, which is released meanwhile.
func (l *log) readFile(c *Chunk, b []byte) int {
	at, data, x := c.Next, l.file, l.index
	b = b[:min(int64(len(b)), l.stored-at)]
	stored := l.stored
	var read Chunk
	var bad Range
	var gone Streams
	l.mu.Unlock()
	n, err := data.ReadAt(b, at)
	if n > 0 {
		err = x.eachRun(at, n, read.adder(b))
	}
	if err != nil {
		bad, gone = x.unreadable(at, stored, err)
	}
	l.mu.Lock()
	if from, to := l.gaps.free(at); from > at || to < at+int64(n) {
		return 0
	}
	if err != nil {
		l.gone |= gone
		l.loss.Disk += l.gaps.add(bad)
		return 0
	}
	add := c.adder(b)
	for _, s := range read.Spans {
		add(s.Stream, len(s.Data))
	}
	return n
}

// unreadable returns what is lost, and its streams, because the byte at cursor at could not be read
// back. If the file, which had bytes up to end, stops before it or is gone, so are all bytes after
// it; else those of a segment.
func (x *index) unreadable(at, end int64, err error) (Range, Streams) {
	if err != io.EOF && !errors.Is(err, fs.ErrNotExist) {
		end = min(end, (at/segmentSize+1)*segmentSize)
	}
	return Range{at, end}, x.streams(at, end) & allStreams
}

// adder returns a function that appends n bytes of a stream to c, which are the next ones in b.
func (c *Chunk) adder(b []byte) func(s Stream, n int) {
	return func(s Stream, n int) {
		if i := len(c.Spans) - 1; i >= 0 && c.Spans[i].Stream == s {
			d := c.Spans[i].Data
			c.Spans[i].Data = d[:len(d)+n]
		} else {
			c.Spans = append(c.Spans, Span{s, b[:n]})
		}
		c.Next, b = c.Next+int64(n), b[n:]
	}
}

// allStreams is the set of the streams that bytes can have.
const allStreams Streams = 1<<Stdout | 1<<Stderr | 1<<TTY | 1<<Result | 1<<Display

// Streams reads few records for each range without gaps.
func (l *log) Streams(from, to int64) (set Streams) {
	l.ready(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	from, to = max(from, 0), min(to, l.end)
	for at := from; at < to; {
		first, next := l.gaps.free(at)
		next = min(next, to)
		switch i := l.heldAt(at); {
		case first > at:
			set, next = set|l.gone, first
		case at < l.stored:
			next = min(next, l.stored)
			x := l.index
			l.mu.Unlock()
			found := x.streams(at, next)
			l.mu.Lock()
			set |= found & allStreams
		default:
			g := &l.held[i]
			next = min(next, g.end())
			g.eachRun(int(at-g.at), int(next-at), func(s Stream, _ int) { set = set.With(s) })
		}
		at = next
	}
	return set
}
