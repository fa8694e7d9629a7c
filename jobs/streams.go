package jobs

// Streams is a set of streams.
type Streams byte

// Has reports whether s is in the set.
func (ss Streams) Has(s Stream) bool { return ss&(1<<s) != 0 }

func (ss Streams) with(s Stream) Streams { return ss | 1<<s }

// Streams returns the streams that wrote the bytes from..to, gone or not. Of
// gone bytes it is known only which streams wrote any of them. It reads labels
// of two segments at most, and is done when it has seen all streams there are.
func (l *Log) Streams(from, to int64) (set Streams) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed.settle(l.count)
	from, to = max(from, 0), min(to, l.end())
	size := int64(l.size)
	for at := from; at < to && set != l.sealed.all|l.active.set; {
		next := min(to, (at/size+1)*size)
		if k := at / size; l.sealed.lost.has(k) {
			set |= l.sealed.gone
			beyond, _ := l.sealed.lost.kept(k, -1)
			next = max(next, beyond*size)
		} else {
			set |= l.streamsOf(k, int(at%size), int(next-at))
		}
		at = next
	}
	return set
}

// streamsOf returns the streams of n bytes of segment k, which is not lost. The
// caller holds l.mu, which is released to read labels from disk.
func (l *Log) streamsOf(k int64, off, n int) (set Streams) {
	g, inMemory := l.active, k == l.count
	if !inMemory {
		g, inMemory = l.sealed.find(k)
	}
	runs, last, whole := g.runs, g.last, g.set
	if !inMemory {
		s := l.sealed.slots[l.sealed.place(k)]
		if last, whole = s.last, s.set; n < l.size && s.labels > 0 {
			l.mu.Unlock()
			var err error
			runs, err = l.sealed.spill.read(s.at, nil, 0, int(s.labels))
			l.mu.Lock()
			l.sealed.settle(l.count)
			if err != nil || l.sealed.lost.has(k) {
				return whole
			}
		}
	}
	if n == l.size {
		return whole
	}
	label(runs, last, off, n, func(s Stream, _ int) { set = set.with(s) })
	return set
}
