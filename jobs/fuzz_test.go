package jobs

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A disk is a spill file in memory that can be told to fail.
type disk struct {
	data                          []byte
	failOpen, failWrite, failRead bool
	failPunch                     bool
	spoilt                        bool // a read has failed
}

var errDisk = errors.New("no space left")

func (d *disk) open() (spillFile, error) {
	if d.failOpen {
		return nil, errDisk
	}
	return d, nil
}

// WriteAt writes half of p before it fails, as a full disk does.
func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	n := len(p)
	if d.failWrite {
		n /= 2
	}
	if need := int(off) + n; need > len(d.data) {
		d.data = append(d.data, make([]byte, need-len(d.data))...)
	}
	copy(d.data[off:], p[:n])
	if d.failWrite {
		return n, errDisk
	}
	return n, nil
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	if d.failRead {
		d.spoilt = true
		return 0, errDisk
	}
	if off+int64(len(p)) > int64(len(d.data)) {
		return 0, errors.New("read of what was not written")
	}
	return copy(p, d.data[off:]), nil
}

func (d *disk) Name() string { return "dir/disk" }

func (d *disk) Punch(off, n int64) error {
	if d.failPunch {
		return errors.ErrUnsupported
	}
	clear(d.data[min(off, int64(len(d.data))):min(off+n, int64(len(d.data)))])
	return nil
}

// A model is the obvious log: it keeps everything.
type model struct {
	data    []byte
	streams []byte
	final   int64
}

func (m *model) write(s Stream, b []byte) {
	m.data = append(m.data, b...)
	m.streams = append(m.streams, bytes.Repeat([]byte{byte(s)}, len(b))...)
}

// check compares a chunk read at cursor with the model.
func (m *model) check(t *testing.T, c Chunk, cursor int64, limit int) {
	t.Helper()
	end := int64(len(m.data))
	cursor = min(max(cursor, 0), end)
	if c.From != cursor+c.Dropped || c.From < cursor || c.From > end || c.Next < c.From || c.Next > end || c.Next-c.From > int64(max(limit, 0)) {
		t.Fatalf("read at %d of %d, at most %d: from %d to %d, dropped %d", cursor, end, limit, c.From, c.Next, c.Dropped)
	}
	if limit > 0 && c.Next == c.From && c.From < end {
		t.Fatalf("read at %d of %d brought nothing", cursor, end)
	}
	at := c.From
	for i, s := range c.Spans {
		to := at + int64(len(s.Data))
		if len(s.Data) == 0 || i > 0 && c.Spans[i-1].Stream == s.Stream {
			t.Fatalf("span %d of %v is empty or goes on with the stream of the one before", i, c.Spans)
		}
		if to > c.Next || !bytes.Equal(s.Data, m.data[at:to]) {
			t.Fatalf("bytes at %d: got %q", at, s.Data)
		}
		if want := bytes.Repeat([]byte{byte(s.Stream)}, len(s.Data)); !bytes.Equal(want, m.streams[at:to]) {
			t.Fatalf("streams at %d: got %v of %q, want %v", at, s.Stream, s.Data, m.streams[at:to])
		}
		at = to
	}
	if at != c.Next {
		t.Fatalf("spans end at %d, next is %d", at, c.Next)
	}
}

// all reads the log from its beginning and returns the gaps it met.
func (m *model) all(t *testing.T, l *Log, limit int) (gaps []Range) {
	t.Helper()
	for cursor, end := int64(0), int64(len(m.data)); cursor < end; {
		c := l.Read(cursor, limit)
		m.check(t, c, cursor, limit)
		if c.Dropped > 0 {
			gaps = append(gaps, Range{cursor, c.From})
		}
		cursor = c.Next
	}
	return gaps
}

func contains(gaps []Range, n int64) bool {
	for _, g := range gaps {
		if g.From <= n && n < g.To {
			return true
		}
	}
	return false
}

// FuzzLog does to a log, with segments of few bytes and a disk that fails now
// and then, what the input says, and compares it with one that keeps everything.
func FuzzLog(f *testing.F) {
	f.Add(uint8(4), uint8(6), uint8(2), []byte("\x00\x08abcdefgh\x01\x03xyz\x14\x05hello\x30\x02"))
	f.Add(uint8(1), uint8(2), uint8(2), bytes.Repeat([]byte{0, 7, 1, 2, 2, 9}, 20))
	f.Add(uint8(3), uint8(5), uint8(3), bytes.Repeat([]byte{0, 30, 0x50, 1, 40, 0x60, 2, 9}, 20))
	f.Add(uint8(8), uint8(16), uint8(0), bytes.Repeat([]byte{0, 200, 1, 100, 0x20, 17}, 30))
	f.Add(uint8(2), uint8(9), uint8(4), bytes.Repeat([]byte{0x50, 0, 99, 0x50, 0x60, 1, 99, 0x60, 0x70, 0x20, 1, 0x70, 0x80}, 9))
	f.Fuzz(func(t *testing.T, size, segments, hold uint8, ops []byte) {
		d := &disk{}
		segment := int(size%32) + 1
		sp := &spill{open: d.open, size: int64(segment)}
		if hold == 0 {
			sp = nil
		}
		l := newLog(segment, int64(segments%20)+1, int(hold%8)+2, sp)
		m := &model{final: -1}
		ops = ops[:min(len(ops), 120)] // each step reads everything
		failed := false
		var gone []Range
		for len(ops) > 0 {
			op, arg := ops[0], 0
			if len(ops) > 1 {
				arg = int(ops[1])
			}
			ops = ops[1:]
			switch op >> 4 {
			case 0, 1: // write
				b := make([]byte, arg)
				for i := range b {
					b[i] = byte(len(m.data) + i + int(op))
				}
				s := Stream(op % 3)
				l.Write(s, b)
				m.write(s, b)
			case 2, 3: // read somewhere
				cursor := int64(op&15) * int64(len(m.data)) / 13 // sometimes beyond the end
				c := l.Read(cursor, arg)
				m.check(t, c, cursor, arg)
			case 4:
				m.check(t, l.Read(-5, arg), -5, arg)
			case 5:
				d.failWrite = !d.failWrite
			case 6:
				d.failOpen = !d.failOpen
			case 7:
				d.failRead = !d.failRead
			case 8:
				l.Finish()
				if m.final < 0 {
					m.final = int64(len(m.data))
				}
			}
			spilled(l)
			failed = failed || d.failWrite || d.failOpen || d.failRead
			compare(t, l, m, d, failed, gone, int(op)+1)
			gone = l.Stat().Gaps
		}
	})
}

// compare holds the log against the model; gone is what was gone before.
func compare(t *testing.T, l *Log, m *model, d *disk, failed bool, gone []Range, limit int) {
	t.Helper()
	met := m.all(t, l, limit)
	st := l.Stat()
	end, size := int64(len(m.data)), int64(l.size)
	if st.End != end || st.Final != m.final {
		t.Fatalf("end %d, final %d; want %d, %d", st.End, st.Final, end, m.final)
	}
	if diff := cmp.Diff(st.Gaps, met); diff != "" {
		t.Fatalf("gaps told and gaps met: %s", diff)
	}
	sum := int64(0)
	for _, g := range st.Gaps {
		sum += g.To - g.From
	}
	if sum != st.Dropped {
		t.Fatalf("dropped %d, gaps are %d", st.Dropped, sum)
	}
	for _, g := range gone {
		if !contains(st.Gaps, g.From) || !contains(st.Gaps, g.To-1) {
			t.Fatalf("%v was gone, now gone is %v", g, st.Gaps)
		}
	}
	m.checkStreams(t, l, st.Gaps, !d.failRead)
	if got := l.tail(limit); len(got) > limit || !bytes.HasSuffix(m.data, got) || len(got) < int(min(int64(limit), end, 1)) {
		t.Fatalf("tail: %q", got)
	}
	sealed := max(0, end-1) / size
	if l := st.Loss; l.Cap+l.Disk+l.State != st.Dropped || l.State > 0 {
		t.Fatalf("dropped %d, by cause %+v", st.Dropped, l)
	}
	if !failed {
		if st.Loss.Disk > 0 {
			t.Fatal("the disk is said to have failed")
		}
		// Exactly the segments between the first and the newest are gone.
		var want []Range
		if to := sealed - l.sealed.ring; to > l.sealed.head {
			want = []Range{{l.sealed.head * size, to * size}}
		}
		if diff := cmp.Diff(want, st.Gaps); diff != "" {
			t.Fatalf("gaps: %s", diff)
		}
	}
	if n := len(l.sealed.held); n > l.sealed.hold {
		t.Fatalf("%d segments in memory, %d allowed", n, l.sealed.hold)
	}
	// Whatever became of what was written, the beginning and the newest are there;
	// only what can't be read back may be gone from there too.
	if newest := max(0, (sealed-1)*size); end > 0 && !d.spoilt && (contains(st.Gaps, 0) || contains(st.Gaps, newest) || contains(st.Gaps, end-1)) {
		t.Fatalf("of %d bytes these are gone: %v", end, st.Gaps)
	}
}
