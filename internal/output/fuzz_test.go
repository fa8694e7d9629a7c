package output_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/output/outputtest"
)

// A disk keeps files in memory and fails on demand.
type disk struct {
	files                                map[string]*diskFile
	failOpen, failWrite, failRead, solid bool
	readFailed                           bool // ever
}

// A diskFile is a file of a disk.
type diskFile struct {
	*disk
	data []byte
}

var errDisk = errors.New("no space left")

func (d *disk) open(path string, flags int) (output.RawFile, error) {
	if d.failOpen && flags&os.O_CREATE != 0 {
		return nil, errDisk
	}
	f := d.files[path]
	if f == nil {
		f = &diskFile{disk: d}
		d.files[path] = f
	}
	return f, nil
}

// WriteAt writes half of p before it fails, as a full disk does.
func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	n := len(p)
	if f.failWrite {
		n /= 2
	}
	if need := int(off) + n; n > 0 && need > len(f.data) {
		f.data = append(f.data, make([]byte, need-len(f.data))...)
	}
	copy(f.data[min(int(off), len(f.data)):], p[:n])
	if f.failWrite {
		return n, errDisk
	}
	return n, nil
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	if f.failRead {
		f.readFailed = true
		return 0, errDisk
	}
	n := copy(p, f.data[min(int(off), len(f.data)):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *diskFile) Close() error { return nil }

func (f *diskFile) Size() (int64, error) { return int64(len(f.data)), nil }

func (f *diskFile) Truncate(size int64) error {
	f.data = f.data[:min(int(size), len(f.data))]
	return nil
}

func (f *diskFile) Punch(off, n int64) error {
	if f.solid {
		return errors.ErrUnsupported
	}
	clear(f.data[min(off, int64(len(f.data))):min(off+n, int64(len(f.data)))])
	return nil
}

// pages returns the bytes of the pages of all files, holes included.
func (d *disk) pages() (sum int64) {
	for _, f := range d.files {
		sum += (int64(len(f.data)) + page - 1) / page * page
	}
	return sum
}

// save writes the files to a directory.
func (d *disk) save(t *testing.T, dir string) {
	for path, f := range d.files {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), f.data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzLog applies the operations of its input to a log with few bytes in memory and a disk that
// fails now and then, and compares it with a log that keeps everything. It does the same to a log
// in memory. What the disk has at the end is the log of a past run.
func FuzzLog(f *testing.F) {
	f.Add(uint8(4), uint16(6), uint8(2), []byte("\x00\x08abcdefgh\x01\x03xyz\x14\x05hello\x30\x02"))
	f.Add(uint8(1), uint16(2), uint8(2), bytes.Repeat([]byte{0, 7, 1, 2, 2, 9}, 20))
	f.Add(uint8(3), uint16(5), uint8(3), bytes.Repeat([]byte{0, 30, 0x50, 1, 40, 0x60, 2, 9}, 20))
	f.Add(uint8(8), uint16(16), uint8(0), bytes.Repeat([]byte{0, 200, 1, 100, 0x20, 17}, 30))
	f.Add(uint8(2), uint16(9), uint8(4), bytes.Repeat([]byte{0x50, 0, 99, 0x50, 0x60, 1, 99, 0x60, 0x70, 0x20, 1, 0x70, 0x80}, 9))
	f.Add(uint8(9), uint16(900), uint8(9), bytes.Repeat([]byte{0, 200, 1, 100, 0x90, 17, 2, 255, 0xa0, 3, 31}, 30))
	f.Add(uint8(7), uint16(50), uint8(3), bytes.Repeat([]byte{0xb3, 5, 0, 3, 0xb0, 1, 0x52, 9, 0xb0, 99, 1, 20, 0x90, 0}, 8))
	f.Add(uint8(0), uint16(3), uint8(0), bytes.Repeat([]byte{0, 1, 0xb0, 1}, 30))
	f.Fuzz(func(t *testing.T, segment uint8, limit uint16, short uint8, ops []byte) {
		ops = ops[:min(len(ops), 120)] // each step reads everything
		for name, dir := range map[string]func() (string, error){"memory": nil, "disk": func() (string, error) { return "dir", nil }} {
			t.Run(name, func(t *testing.T) {
				d := &disk{files: map[string]*diskFile{}}
				s := output.NewTestStore(output.Config{Dir: dir})
				s.Open(d.open)
				s.SetShape(int64(short%16), int(segment%32)+1, int64(limit%2000)+1)
				play(t, s.New(), d, ops, func() int64 { return s.Usage().Bytes })
			})
		}
	})
}

// play applies ops to a log. Each operation is one byte, followed by a byte that is its argument.
func play(t *testing.T, l output.TestLog, d *disk, ops []byte, used func() int64) {
	m := new(outputtest.Model)
	failed, writeFailed, skipped := false, false, false
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
		case 9:
			l.Flush()
		case 10:
			d.solid = true
		case 11:
			l.Skip(m.End()+int64(arg), output.Loss{Cap: int64(arg)})
			m.Skip(arg)
			skipped = true
		}
		writeFailed = writeFailed || d.failWrite || d.failOpen
		failed = failed || writeFailed || d.failRead || skipped
		m.VagueStreams = d.failRead || d.readFailed
		m.Compare(t, l, int(op)+1)
		checkGaps(t, l, m.End(), d, failed, skipped)
		if n, most := used(), d.pages(); n < 0 || n > most || !failed && n != most {
			t.Fatalf("%d bytes are counted, of files of %d", n, most)
		}
	}
	comparePast(t, l, m, d)
}

// checkGaps checks which bytes are gone, of a log of end bytes on a disk that has failed or never
// has. skipped means that some never came, which counts as a failure.
func checkGaps(t *testing.T, l output.TestLog, end int64, d *disk, failed, skipped bool) {
	t.Helper()
	st := l.Stat()
	if st.Loss.Limit > 0 || st.Loss.Disk > 0 && !failed {
		t.Fatalf("by cause: %+v", st.Loss)
	}
	if !failed && !d.solid {
		if most := l.Cap() + l.Step(); end-st.Dropped < min(end, l.Cap()) || end-st.Dropped > most || len(st.Gaps) > 1 {
			t.Fatalf("kept %d of %d, with a limit of %d: %v", end-st.Dropped, end, most, st.Gaps)
		}
	}
	if n, most := l.Held(); n > most {
		t.Fatalf("%d bytes in memory, %d allowed", n, most)
	}
	// The beginning and the newest bytes are there, whatever happened to writes: only bytes that
	// can't be read back can be gone from there, too.
	if end > 0 && !d.readFailed && !skipped && l.Cap() > 1 && (outputtest.Contains(st.Gaps, 0) || outputtest.Contains(st.Gaps, end-1)) {
		t.Fatalf("of %d bytes these are gone: %v", end, st.Gaps)
	}
}

// comparePast compares the log with what a later run finds on disk: the same, apart from what only
// memory has.
func comparePast(t *testing.T, l output.TestLog, m *outputtest.Model, d *disk) {
	l.Finish()
	m.Finish()
	st := l.Stat()
	short, ok := l.Short()
	if !ok && len(d.files) == 0 {
		return
	}
	held, _ := l.Held()
	dir := t.TempDir()
	d.save(t, dir)
	for _, killed := range []bool{false, true} {
		known := st
		if killed {
			known = output.Stat{Final: -1}
		}
		past := output.OpenPast(output.FilesOf(dir), known, short)
		if killed && past.Stat().End < m.End() {
			continue
		}
		m := m.Reread(past.Stat().Final)
		m.VagueStreams = st.Dropped+int64(held) > 0
		m.Compare(t, past, 1000)
		if got := past.Stat().Dropped; !d.readFailed && got > st.Dropped+int64(held) {
			t.Fatalf("dropped %d, before %d and %d in memory\nbefore: %+v\nafter: %+v", got, st.Dropped, held, st, past.Stat())
		}
	}
}
