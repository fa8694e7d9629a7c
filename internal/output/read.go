package output

import "slices"

func (l *segmentLog) Read(cursor int64, limit int) Chunk { return l.read(cursor, limit, nil) }

// ReadInto is Read of at most len(b) bytes into b, for readers of much. The chunk refers to b. It is
// not a method that every [Reader] has.
func (l *segmentLog) ReadInto(cursor int64, b []byte) Chunk { return l.read(cursor, len(b), b) }

// read is Read, into b if it is not nil.
func (l *segmentLog) read(cursor int64, limit int, b []byte) Chunk {
	l.mu.Lock()
	defer l.mu.Unlock()
	cursor = min(max(cursor, 0), l.end())
	for {
		from, to := l.readable(cursor)
		c := Chunk{From: from, Dropped: from - cursor}
		n := int(min(int64(max(limit, 0)), to-from))
		into := b
		if into == nil {
			into = make([]byte, n)
		}
		read := l.fill(&c, into[:n])
		if read == 0 && n > 0 {
			continue // the bytes were lost meanwhile, so there is a gap now
		}
		c.Next = from + int64(read)
		for i := range c.Spans {
			// Without the clip, an append to one span would overwrite the next.
			c.Spans[i].Data = slices.Clip(c.Spans[i].Data)
		}
		return c
	}
}

// readable returns the first range without gaps from cursor on. The caller holds l.mu.
func (l *segmentLog) readable(cursor int64) (from, to int64) {
	l.sealed.applyEvictions(l.count)
	size := int64(l.size)
	first, gap := l.sealed.lost.kept(cursor / size)
	if to = l.end(); gap != none {
		to = gap * size
	}
	return max(cursor, first*size), to
}

// fill reads bytes from c.From on into b, appends them to c and returns how many it got: fewer if
// the rest was lost while the lock was released to read from disk. The caller holds l.mu.
func (l *segmentLog) fill(c *Chunk, b []byte) int {
	read := 0
	for read < len(b) {
		pos := c.From + int64(read)
		k, off := pos/int64(l.size), int(pos%int64(l.size))
		part := b[read:min(len(b), read+l.size-off)]
		runs, last, ok := l.bytes(k, off, part)
		if !ok {
			return read
		}
		eachRun(runs, last, off, len(part), func(s Stream, m int) {
			c.add(s, b[read:read+m])
			read += m
		})
	}
	return read
}

// bytes fills part with the bytes at off of segment k, and returns the labels of the segment. It
// reports false if the segment is lost. The caller holds l.mu, which is released to read from disk.
func (l *segmentLog) bytes(k int64, off int, part []byte) (runs []byte, last Stream, ok bool) {
	if l.sealed.lost.has(k) {
		return nil, 0, false
	}
	if g, ok := l.inMemory(k); ok {
		copy(part, g.data[off:])
		return g.runs, g.last, true
	}
	stored := l.sealed.onDisk[l.sealed.shape.place(k)]
	runs, err := l.readDisk(k, off, part, stored)
	if err != nil {
		l.sealed.unreadable(k)
	}
	return runs, stored.last, !l.sealed.lost.has(k)
}

// inMemory returns segment k if it is in memory. The caller holds l.mu.
func (l *segmentLog) inMemory(k int64) (segment, bool) {
	if k == l.count {
		return l.active, true
	}
	return l.sealed.find(k)
}

// readDisk reads from disk as [disk.read] does. The caller holds l.mu, which is released meanwhile.
// When it returns, the segment can be lost, and the bytes can belong to another segment.
func (l *segmentLog) readDisk(k int64, off int, part []byte, stored labels) ([]byte, error) {
	l.mu.Unlock()
	runs, err := l.sealed.disk.read(k, off, part, int(stored.length))
	l.mu.Lock()
	l.sealed.applyEvictions(l.count)
	return runs, err
}

// add appends b, which follows the last span of c in the same buffer.
func (c *Chunk) add(s Stream, b []byte) {
	if i := len(c.Spans) - 1; i >= 0 && c.Spans[i].Stream == s {
		d := c.Spans[i].Data
		c.Spans[i].Data = d[:len(d)+len(b)]
		return
	}
	c.Spans = append(c.Spans, Span{s, b})
}

// Streams reads the labels of at most two segments, and returns as soon as it has found every
// stream of the log.
func (l *segmentLog) Streams(from, to int64) (set Streams) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed.applyEvictions(l.count)
	from, to = max(from, 0), min(to, l.end())
	size := int64(l.size)
	for at := from; at < to && set != l.sealed.all|l.active.set; {
		next := min(to, (at/size+1)*size)
		if k := at / size; l.sealed.lost.has(k) {
			set |= l.sealed.gone
			after, _ := l.sealed.lost.kept(k)
			next = max(next, after*size)
		} else {
			set |= l.streamsOf(k, int(at%size), int(next-at))
		}
		at = next
	}
	return set
}

// streamsOf returns the streams of n bytes at off of segment k, which is not lost. The caller holds
// l.mu, which is released to read labels from disk.
func (l *segmentLog) streamsOf(k int64, off, n int) (set Streams) {
	g, ok := l.inMemory(k)
	if !ok {
		stored := l.sealed.onDisk[l.sealed.shape.place(k)]
		g = segment{last: stored.last, set: stored.set}
		if n < l.size && stored.length > 0 {
			var err error
			if g.runs, err = l.readDisk(k, 0, nil, stored); err != nil || l.sealed.lost.has(k) {
				return g.set
			}
		}
	}
	if n == l.size {
		return g.set
	}
	eachRun(g.runs, g.last, off, n, func(s Stream, _ int) { set = set.With(s) })
	return set
}
