package jobs

import "slices"

// Read returns at most limit bytes from cursor on, without waiting. A cursor in
// a gap is moved up to the end of it, one beyond the end of the log back to that.
// A chunk ends where a gap begins.
func (l *Log) Read(cursor int64, limit int) Chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	cursor = min(max(cursor, 0), l.end())
	for {
		from, to := l.readable(cursor)
		c := Chunk{From: from, Dropped: from - cursor}
		n := int(min(int64(max(limit, 0)), to-from))
		read := l.fill(&c, n)
		if read == 0 && n > 0 {
			continue // what was to be read went meanwhile: there is a gap now
		}
		c.Next = from + int64(read)
		for i := range c.Spans {
			c.Spans[i].Data = slices.Clip(c.Spans[i].Data) // to append to one must not write into the next
		}
		return c
	}
}

// readable returns the next stretch from cursor on that is not gone. The caller
// holds l.mu.
func (l *Log) readable(cursor int64) (from, to int64) {
	l.sealed.settle(l.count)
	size := int64(l.size)
	first, gap := l.sealed.lost.kept(cursor/size, -1)
	if to = l.end(); gap >= 0 {
		to = gap * size
	}
	return max(cursor, first*size), to
}

// fill appends n bytes from c.From on to c and returns how many it got: fewer
// if the rest went while the lock was released to read from disk. The caller
// holds l.mu.
func (l *Log) fill(c *Chunk, n int) int {
	b := make([]byte, n)
	read := 0
	for read < n {
		pos := c.From + int64(read)
		k, off := pos/int64(l.size), int(pos%int64(l.size))
		part := b[read:min(n, read+l.size-off)]
		g, inMemory := l.active, k == l.count
		if !inMemory {
			g, inMemory = l.sealed.find(k)
		}
		runs, last := g.runs, g.last
		switch {
		case l.sealed.lost.has(k):
			return read
		case inMemory:
			copy(part, g.data[off:])
		default:
			s := l.sealed.slots[l.sealed.place(k)]
			l.mu.Unlock()
			var err error
			runs, err = l.sealed.spill.read(s.at, part, off, int(s.labels))
			l.mu.Lock()
			l.sealed.settle(l.count)
			if err != nil {
				l.sealed.spoilt(k)
			}
			if l.sealed.lost.has(k) {
				return read // or another segment, even another log's, may have come into its slot
			}
			last = s.last
		}
		label(runs, last, off, len(part), func(s Stream, m int) {
			c.add(s, b[read:read+m])
			read += m
		})
	}
	return read
}

// add appends b, which begins where the last span of c ends in the same buffer.
func (c *Chunk) add(s Stream, b []byte) {
	if i := len(c.Spans) - 1; i >= 0 && c.Spans[i].Stream == s {
		d := c.Spans[i].Data
		c.Spans[i].Data = d[:len(d)+len(b)]
		return
	}
	c.Spans = append(c.Spans, Span{s, b})
}

// tail returns at most n of the newest bytes.
func (l *Log) tail(n int) []byte {
	end := l.Stat().End
	for cursor := end - int64(n); ; {
		c := l.Read(cursor, n)
		if c.Next < end {
			cursor = c.Next // there was a gap behind it
			continue
		}
		var b []byte
		for _, s := range c.Spans {
			b = append(b, s.Data...)
		}
		return b
	}
}
