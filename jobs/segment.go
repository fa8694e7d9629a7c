package jobs

import (
	"encoding/binary"
	"slices"
)

// A segment is a stretch of a log in memory. Its labels are run lengths: runs
// holds those that are over, encoded; the last run has stream last and goes to
// the end of data.
type segment struct {
	data []byte
	runs []byte
	last Stream
	from int     // where the last run begins in data
	set  Streams // of all runs
}

// streamBits is how much of an encoded run names its stream. A run of n bytes
// takes no more than n bytes, so labels never take more than the data.
const streamBits = 2

// append adds b, which must fit into a segment of size bytes. Memory doubles as
// it is needed, so that a job of few words costs few bytes.
func (g *segment) append(s Stream, b []byte, size int) {
	if need := len(g.data) + len(b); need > cap(g.data) {
		g.data = append(make([]byte, 0, min(size, max(need, 2*cap(g.data)))), g.data...)
	}
	if s != g.last && len(g.data) > g.from {
		g.runs = binary.AppendUvarint(g.runs, uint64(len(g.data)-g.from)<<streamBits|uint64(g.last))
		g.from = len(g.data)
	}
	g.last, g.set = s, g.set.with(s)
	g.data = append(g.data, b...)
}

// emptied returns a segment without bytes that has the memory of g.
func (g segment) emptied() segment {
	return segment{data: g.data[:0], runs: g.runs[:0]}
}

// clip gives back memory that nothing was written to.
func (g *segment) clip() {
	if cap(g.data) > len(g.data) {
		g.data = slices.Clone(g.data)
	}
	if cap(g.runs) > len(g.runs) {
		g.runs = slices.Clone(g.runs)
	}
}

// label tells add the streams of the n bytes at off of a segment whose labels
// are runs and last, in order.
func label(runs []byte, last Stream, off, n int, add func(Stream, int)) {
	for len(runs) > 0 && n > 0 {
		v, k := binary.Uvarint(runs)
		if k <= 0 {
			break // not what was written: better a wrong label than no output
		}
		runs = runs[k:]
		length := int(v >> streamBits)
		if off >= length {
			off -= length
			continue
		}
		m := min(length-off, n)
		add(Stream(v&(1<<streamBits-1)), m)
		n, off = n-m, 0
	}
	if n > 0 {
		add(last, n)
	}
}
