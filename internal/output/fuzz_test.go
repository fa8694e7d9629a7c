package output_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/output/outputtest"
)

// A disk is a file in memory that fails on demand.
type disk struct {
	data                          []byte
	failOpen, failWrite, failRead bool
	readFailed                    bool // ever
}

var errDisk = errors.New("no space left")

func (d *disk) open() (output.RawFile, error) {
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
		d.readFailed = true
		return 0, errDisk
	}
	if off+int64(len(p)) > int64(len(d.data)) {
		return 0, errors.New("read of bytes that were not written")
	}
	return copy(p, d.data[off:]), nil
}

func (d *disk) Name() string { return "dir/disk" }

func (d *disk) Punch(off, n int64) error {
	clear(d.data[min(off, int64(len(d.data))):min(off+n, int64(len(d.data)))])
	return nil
}

// FuzzLog applies the operations of its input to a log with segments of few bytes and a disk that
// fails now and then, and compares it with a log that keeps everything. It does the same to a log
// in memory.
func FuzzLog(f *testing.F) {
	f.Add(uint8(4), uint8(6), uint8(2), []byte("\x00\x08abcdefgh\x01\x03xyz\x14\x05hello\x30\x02"))
	f.Add(uint8(1), uint8(2), uint8(2), bytes.Repeat([]byte{0, 7, 1, 2, 2, 9}, 20))
	f.Add(uint8(3), uint8(5), uint8(3), bytes.Repeat([]byte{0, 30, 0x50, 1, 40, 0x60, 2, 9}, 20))
	f.Add(uint8(8), uint8(16), uint8(0), bytes.Repeat([]byte{0, 200, 1, 100, 0x20, 17}, 30))
	f.Add(uint8(2), uint8(9), uint8(4), bytes.Repeat([]byte{0x50, 0, 99, 0x50, 0x60, 1, 99, 0x60, 0x70, 0x20, 1, 0x70, 0x80}, 9))
	f.Fuzz(func(t *testing.T, size, segments, hold uint8, ops []byte) {
		segment, count, maxHeld := int(size%32)+1, int64(segments%20)+1, int(hold%8)+2
		ops = ops[:min(len(ops), 120)] // each step reads everything
		t.Run("memory", func(t *testing.T) {
			play(t, output.NewTestLog(segment, count, 0, nil), new(disk), ops)
		})
		t.Run("memory with disk", func(t *testing.T) {
			d := new(disk)
			play(t, output.NewTestLog(segment, count, maxHeld, d.open), d, ops)
		})
	})
}

// play applies ops to a log. Each operation is one byte, followed by a byte that is its argument.
func play(t *testing.T, l output.TestLog, d *disk, ops []byte) {
	m := new(outputtest.Model)
	failed := false
	for len(ops) > 0 {
		op, arg := ops[0], 0
		if len(ops) > 1 {
			arg = int(ops[1])
		}
		ops = ops[1:]
		switch op >> 4 {
		case 0, 1:
			b := make([]byte, arg)
			for i := range b {
				b[i] = byte(int(m.End()) + i + int(op))
			}
			s := output.Stream(op % 5)
			l.Write(s, b)
			m.Write(s, b)
		case 2, 3:
			m.CheckRead(t, l, int64(op&15)*m.End()/13, arg) // sometimes beyond the end
		case 4:
			m.CheckRead(t, l, -5, arg)
		case 5:
			d.failWrite = !d.failWrite
		case 6:
			d.failOpen = !d.failOpen
		case 7:
			d.failRead = !d.failRead
		case 8:
			l.Finish()
			m.Finish()
		}
		l.Flushed()
		failed = failed || d.failWrite || d.failOpen || d.failRead
		m.VagueStreams = d.failRead
		m.Compare(t, l, int(op)+1)
		checkGaps(t, l, m.End(), d, failed)
	}
}

// checkGaps checks which bytes are gone, of a log of end bytes on a disk that has failed or never
// has.
func checkGaps(t *testing.T, l output.TestLog, end int64, d *disk, failed bool) {
	t.Helper()
	st := l.Stat()
	if st.Loss.Limit > 0 || st.Loss.Disk > 0 && !failed {
		t.Fatalf("by cause: %+v", st.Loss)
	}
	if !failed {
		if diff := cmp.Diff(l.CapGap(end), st.Gaps); diff != "" {
			t.Fatalf("gaps: %s", diff)
		}
	}
	if n, most := l.Held(); n > most {
		t.Fatalf("%d segments in memory, %d allowed", n, most)
	}
	// The beginning and the newest bytes are there, whatever happened to writes: only bytes that
	// can't be read back can be gone from there, too.
	if end > 0 && !d.readFailed && (outputtest.Contains(st.Gaps, 0) || outputtest.Contains(st.Gaps, l.Newest(end)) || outputtest.Contains(st.Gaps, end-1)) {
		t.Fatalf("of %d bytes these are gone: %v", end, st.Gaps)
	}
}
