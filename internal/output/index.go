package output

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"
)

// An index is what a log has in output.streams: a header and then a record for each change of
// stream. A copy of an index can be read while its log is written, because records are only
// appended.
type index struct {
	header
	file   *file
	count  int64    // records in the file
	recent []record // the newest records

	// sums has for each n the set of the newest record whose number has n zeros at its end, counted
	// from 1. Each record has the streams of as many records as the lowest bit of its number says, as
	// in a Fenwick tree, so that the streams of a range are found in few steps.
	sums [bits.UintSize]Streams
}

// A header says what the limit of a log has taken from it. It is written before the holes are
// punched.
type header struct {
	cut     Range   // bytes
	records Range   // the numbers of records that are of these bytes only, counted from 0
	gone    Streams // the streams of these bytes
}

// A record has, in 48, 8 and 8 bits, the cursor of the first byte of a run, a set of streams, see
// [index], and its stream.
type record uint64

const (
	headerSize = 5 * 8
	recordSize = 8
	maxRecent  = 256 // records in memory, more or less

	// lost is the stream of bytes that no file has because the disk refused them, or because they were
	// dropped for the limit of all logs.
	lost Stream = 7
)

func (r record) cursor() int64    { return int64(r >> 16) }
func (r record) streams() Streams { return Streams(r >> 8) }
func (r record) stream() Stream   { return Stream(r) & lost } // whatever a corrupt file has

// add appends a record in memory.
func (x *index) add(at int64, s Stream) record {
	x.count++
	set, level := Streams(0).With(s), bits.TrailingZeros64(uint64(x.count))
	for _, sum := range x.sums[:level] {
		set |= sum
	}
	x.sums[level] = set
	r := record(at)<<16 | record(set)<<8 | record(s)
	if len(x.recent) == 2*maxRecent {
		x.recent = append(make([]record, 0, 2*maxRecent), x.recent[maxRecent:]...) // readers have the old one
	}
	x.recent = append(x.recent, r)
	return r
}

// newest returns the stream of the newest record, or lost if there is none.
func (x *index) newest() Stream {
	if len(x.recent) == 0 {
		return lost
	}
	return x.recent[len(x.recent)-1].stream()
}

// size returns the size of the file.
func (x *index) size() int64 { return headerSize + x.count*recordSize }

// labels returns the place in the file of the records that were cut out.
func (x *index) labels() Range {
	return Range{headerSize + x.records.From*recordSize, headerSize + x.records.To*recordSize}
}

// load returns at least one and at most n records, from number i on.
func (x *index) load(i int64, n int) ([]record, error) {
	if first := x.count - int64(len(x.recent)); i >= first {
		return x.recent[i-first:], nil
	}
	b := make([]byte, min(int64(n), x.count-i)*recordSize)
	if _, err := x.file.ReadAt(b, headerSize+i*recordSize); err != nil {
		return nil, err
	}
	var rs []record
	for at := range slices.Chunk(b, recordSize) {
		rs = append(rs, record(binary.LittleEndian.Uint64(at)))
	}
	return rs, nil
}

// find returns the number of the record that labels the byte at cursor.
func (x *index) find(cursor int64) (int64, error) {
	from, to := x.records.To, x.count
	if cursor < x.cut.From {
		from, to = 0, x.records.From
	}
	if len(x.recent) > 0 && x.recent[0].cursor() <= cursor {
		from = max(from, x.count-int64(len(x.recent)))
	}
	var failed error
	n := sort.Search(int(to-from), func(i int) bool {
		rs, err := x.load(from+int64(i), 1)
		if err != nil {
			failed = err
			return true
		}
		return rs[0].cursor() > cursor
	})
	return from + int64(max(0, n-1)), failed
}

// eachRun calls f, in order, for each run within the n bytes at cursor at. If the file is corrupt,
// the labels are wrong: that is better than no output. It reads no more records than it has bytes.
func (x *index) eachRun(at int64, n int, f func(Stream, int)) error {
	first, err := x.find(at)
	s, rs := TTY, []record(nil)
	for i := first; err == nil && n > 0 && i < x.count; i++ {
		if len(rs) == 0 {
			if rs, err = x.load(i, maxRecent); err != nil {
				return err
			}
		}
		if m := int(min(int64(n), rs[0].cursor()-at)); m > 0 {
			f(s, m)
			at, n = at+int64(m), n-m
		} else if i > first {
			break // the file is corrupt
		}
		s, rs = rs[0].stream(), rs[1:]
	}
	if n > 0 && err == nil {
		f(s, n)
	}
	return err
}

// streams returns the streams of the bytes from..to, which are not cut: one of them can be lost. If
// the labels can't be read, it returns every stream.
func (x *index) streams(from, to int64) (set Streams) {
	first, err := x.find(from)
	last, lastErr := x.find(to - 1)
	if err != nil || lastErr != nil {
		return ^Streams(0)
	}
	for n := last + 1; n > first; {
		rs, err := x.load(n-1, 1)
		if err != nil {
			return ^Streams(0)
		}
		if low := n & -n; n-low >= first {
			set |= rs[0].streams()
			n -= low
		} else {
			set = set.With(rs[0].stream())
			n--
		}
	}
	return set
}

// writeHeader writes the header to the file.
func (x *index) writeHeader() error {
	var b []byte
	for _, n := range []int64{x.cut.From, x.cut.To, x.records.From, x.records.To, int64(x.gone)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return x.file.WriteAt(b, 0)
}
