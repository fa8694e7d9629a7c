package output

import (
	"encoding/binary"
	"slices"
)

// A segment is a piece of a log in memory. Its labels are run lengths: runs holds the encoded runs
// that are over; the last run is of stream last and ends with data.
type segment struct {
	at   int64 // the cursor of its first byte
	data []byte
	runs []byte
	last Stream
	from int     // the offset in data of the last run
	set  Streams // the streams of all runs
}

// streamBits is the number of bits of an encoded run that name its stream. With up to 6 of them, a
// run of n bytes takes at most n bytes, so labels never take more space than the data.
const streamBits = 3

// end returns the cursor after the last byte.
func (g *segment) end() int64 { return g.at + int64(len(g.data)) }

// append adds b, which must fit into a segment of size bytes. Memory doubles as needed, so that a
// log of few bytes costs few.
func (g *segment) append(s Stream, b []byte, size int) {
	if need := len(g.data) + len(b); need > cap(g.data) {
		g.data = append(make([]byte, 0, min(size, max(need, 2*cap(g.data)))), g.data...)
	}
	if s != g.last && len(g.data) > g.from {
		g.runs = binary.AppendUvarint(g.runs, uint64(len(g.data)-g.from)<<streamBits|uint64(g.last))
		g.from = len(g.data)
	}
	g.last, g.set = s, g.set.With(s)
	g.data = append(g.data, b...)
}

// clip gives unused memory back.
func (g *segment) clip() {
	if cap(g.data) > len(g.data) {
		g.data = slices.Clone(g.data)
	}
	if cap(g.runs) > len(g.runs) {
		g.runs = slices.Clone(g.runs)
	}
}

// eachRun calls f, in order, for each run within the n bytes at off.
func (g *segment) eachRun(off, n int, f func(Stream, int)) {
	for runs := g.runs; len(runs) > 0 && n > 0; {
		v, k := binary.Uvarint(runs)
		runs = runs[k:]
		length := int(v >> streamBits)
		if off >= length {
			off -= length
			continue
		}
		m := min(length-off, n)
		f(Stream(v&(1<<streamBits-1)), m)
		n, off = n-m, 0
	}
	if n > 0 {
		f(g.last, n)
	}
}
