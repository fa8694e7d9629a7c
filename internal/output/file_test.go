package output_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/output/outputtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/racetest"
)

// sharing returns a store on a real disk that keeps limit bytes of all logs there, and at most most
// bytes of one log.
func sharing(t *testing.T, limit, most int64) output.TestStore {
	dir := t.TempDir()
	return output.NewTestStore(output.Config{Cap: most, Disk: limit, Dir: func() (string, error) { return dir, nil }})
}

// segments writes n segments of a pattern, and one byte, so that all of them are sealed.
func segments(l output.TestLog, n int) {
	b := make([]byte, l.Size())
	for range n {
		outputtest.Pattern(b, l.Stat().End)
		l.Write(output.Stdout, b)
	}
	outputtest.Pattern(b[:1], l.Stat().End)
	l.Write(output.Stdout, b[:1])
	l.Flushed()
}

// wantKept fails the test unless that many bytes of the log can be read.
func wantKept(t *testing.T, what string, l output.TestLog, want int64) {
	t.Helper()
	if got := outputtest.CheckPattern(t, l); got != want {
		t.Errorf("%s: %d bytes are left, want %d", what, got, want)
	}
}

// The logs that were finished first make room on disk, and the bytes they lose are counted exactly.
func TestFinishedLogsMakeRoom(t *testing.T) {
	const size = output.SegmentSize
	m := sharing(t, 12*size, 0)
	first, second, running, last := m.New(), m.New(), m.New(), m.New()
	usage := func(when string, want output.Usage) {
		t.Helper()
		got := m.Usage()
		want.Limit, want.Dir = 12*size, got.Dir
		if got != want || got.Dir == "" {
			t.Errorf("%s: usage %+v, want %+v", when, got, want)
		}
	}
	for _, l := range []output.TestLog{first, second, running} {
		segments(l, 4)
	}
	first.Finish()
	second.Finish()
	segments(last, 2)
	gone := output.Stat{End: 4*size + 1, Final: 4*size + 1, Dropped: 4 * size, Gaps: []output.Range{{0, 4 * size}}, Loss: output.Loss{Limit: 4 * size}}
	if d := cmp.Diff(gone, first.Stat(), withoutTime); d != "" {
		t.Errorf("the first to finish: %s", d)
	}
	wantKept(t, "the first to finish", first, 1) // the newest byte
	wantKept(t, "the second to finish", second, 4*size+1)
	wantKept(t, "an unfinished log", running, 4*size+1)
	wantKept(t, "the last log", last, 2*size+1)
	usage("with room", output.Usage{Bytes: 12 * size})

	// An unfinished log loses nothing to another: of bytes that don't fit, head and tail stay in
	// memory.
	segments(last, 10)
	wantKept(t, "the second to finish", second, 1)
	wantKept(t, "an unfinished log", running, 4*size+1)
	full := last.Stat()
	if full.Loss.Limit == 0 || full.Loss.Limit != full.Dropped {
		t.Errorf("an unfinished log without room: %+v", full)
	}
	wantKept(t, "an unfinished log without room", last, full.End-full.Dropped)
	usage("without room", output.Usage{Bytes: 12 * size, Failure: output.ErrLimit})

	// With room again, the segments in memory go to disk.
	running.Finish()
	segments(last, 1)
	st := last.Stat()
	if st.Dropped != full.Dropped || held(last) != 0 {
		t.Errorf("with room again: %+v, %d segments held", st, held(last))
	}
	wantKept(t, "with room again", last, st.End-st.Dropped)
	usage("with room again", output.Usage{Bytes: 12 * size})

	// Late output of an evicted log is kept like any other.
	segments(first, 2)
	wantKept(t, "late output", first, 1+2*size+1)
}

func TestDiscardGivesSpaceBackToTheDisk(t *testing.T) {
	m := sharing(t, 0, 0)
	blocks := func() int64 {
		f, _ := m.File()
		info := must.Get(f.(interface{ Stat() (fs.FileInfo, error) }).Stat())(t)
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	a, b := m.New(), m.New()
	for range 4 {
		segments(a, 1)
		segments(b, 1)
	}
	if got := blocks(); got < 8*output.SegmentSize || m.Usage().Bytes != 8*output.SegmentSize {
		t.Errorf("%d bytes on disk, usage %+v", got, m.Usage())
	}
	a.Discard()
	f, _ := m.File()
	if err := f.Punch(0, 1); err != nil {
		t.Skipf("this file system gives nothing back: %v", err)
	}
	if got := blocks(); got > 4*output.SegmentSize+64<<10 || m.Usage().Bytes != 4*output.SegmentSize {
		t.Errorf("%d bytes on disk, usage %+v", got, m.Usage())
	}
	segments(m.New(), 4)
	if got := outputtest.CheckPattern(t, b); got != b.Stat().End {
		t.Errorf("%d bytes of %d are left", got, b.Stat().End)
	}
	if _, n := m.File(); n != 8 {
		t.Errorf("%d slots: those given back are not used again", n)
	}
}

func TestAllLogsShareOneDescriptor(t *testing.T) {
	m := sharing(t, 0, 512<<10)
	logs := make([]output.TestLog, 100)
	for i := range logs {
		logs[i] = m.New()
		segments(logs[i], 1)
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(fds) == 0 {
		t.Skip("this system does not list open files", err)
	}
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, m.Usage().Dir) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d descriptors for 100 logs", n)
	}
	for _, l := range logs {
		if got := outputtest.CheckPattern(t, l); got != l.Size()+1 {
			t.Fatalf("%d bytes are left", got)
		}
	}
}

// The middle of a log is dropped when its cap is reached, and counted exactly.
func TestCapKeepsBothHalvesAtAnySize(t *testing.T) {
	racetest.Skip(t)
	for _, limit := range []int64{4096, 4097, 5003, 65_537, output.SegmentSize, output.SegmentSize + 1, 300_001, 1<<20 - 1, 16<<18 + 1, 5_000_011} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			l, _ := onDisk(t, limit)
			size := l.Size()
			b := make([]byte, 777*(1+limit/100_000))
			for l.Stat().End < 3*limit {
				outputtest.Pattern(b, l.Stat().End)
				l.Write(output.Stdout, b)
			}
			st := l.Stat()
			kept := st.End - st.Dropped
			if got := outputtest.CheckPattern(t, l); got != kept {
				t.Errorf("%d bytes can be read, %d are counted", got, kept)
			}
			// A segment more or less: a cap is no multiple of them, and the newest is not counted.
			if kept > limit+size || kept < limit-2*size {
				t.Errorf("kept %d", kept)
			}
			if len(st.Gaps) != 1 || st.Loss.Cap != st.Dropped {
				t.Fatalf("%+v", st)
			}
			if g := st.Gaps[0]; g.From < limit/2-size || g.From > limit/2 || st.End-g.To < limit/2-size {
				t.Errorf("the first %d and the last %d of %d are kept, want half each", g.From, st.End-g.To, limit)
			}
		})
	}
}

// A fullDisk is a file that takes room bytes and no more.
type fullDisk struct {
	output.RawFile
	mu   sync.Mutex
	room int64
}

func (d *fullDisk) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fits := min(d.room, int64(len(p)))
	n, err := d.RawFile.WriteAt(p[:fits], off)
	d.room -= fits
	if err == nil && n < len(p) {
		err = &fs.PathError{Op: "write", Path: d.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}

// withRoom puts a fullDisk under the logs of m.
func withRoom(m output.TestStore, room int64) *fullDisk {
	d := &fullDisk{room: room}
	m.WrapFile(func(f output.RawFile) output.RawFile {
		d.RawFile = f
		return d
	})
	return d
}

func (d *fullDisk) setRoom(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = n
}

// The space that is counted is what the disk has taken, not what it has refused.
func TestUsageIsWhatTheDiskTook(t *testing.T) {
	const size, page = output.SegmentSize, 4 << 10
	for what, write := range map[string]func(output.TestLog){
		"output":      func(l output.TestLog) { segments(l, 4) },    // without labels
		"attachments": func(l output.TestLog) { attach(l, 4*size) }, // each takes the places of one that did not fit
	} {
		for _, test := range []struct{ room, want int64 }{
			{0, 0}, {100, page}, {size / 2, size / 2}, {size, size}, {size + 1, size + page}, {5*size/2 + 1, 5*size/2 + page},
		} {
			t.Run(fmt.Sprintf("%s, %d bytes", what, test.room), func(t *testing.T) {
				m := sharing(t, 0, 0)
				d := withRoom(m, test.room)
				l := m.New()
				for range 2 {
					write(l)
					if u := m.Usage(); u.Bytes != test.want || !errors.Is(u.Failure, syscall.ENOSPC) {
						t.Errorf("full: usage %+v, want %d bytes", u, test.want)
					}
				}
				l.Discard()
				l = m.New()
				d.setRoom(1 << 40)
				write(l)
				if u := m.Usage(); u.Bytes < 4*size || u.Bytes > 4*size+test.want || u.Failure != nil {
					t.Errorf("with room again: usage %+v, want %d bytes", u, 4*size)
				}
			})
		}
	}
}

// Labels that do not fit are not counted either.
func TestUsageWithoutRoomForLabels(t *testing.T) {
	m := sharing(t, 0, 0)
	d := withRoom(m, output.SegmentSize)
	l := m.New()
	for l.Stat().End <= output.SegmentSize {
		l.Write(output.Stdout, []byte("out"))
		l.Write(output.Stderr, []byte("err"))
	}
	l.Flushed()
	if u := m.Usage(); u.Bytes != output.SegmentSize || !errors.Is(u.Failure, syscall.ENOSPC) {
		t.Errorf("usage %+v, want %d bytes", u, output.SegmentSize)
	}
	d.setRoom(1 << 40)
	segments(l, 1)
	if u := m.Usage(); u.Bytes <= 2*output.SegmentSize {
		t.Errorf("with room again: usage %+v", u)
	}
}

// On a full disk a log keeps its beginning and its newest bytes in memory. When there is room
// again, nothing more is lost.
func TestFullDiskLosesTheMiddleOnly(t *testing.T) {
	m := sharing(t, 0, 0)
	d := withRoom(m, 2*output.SegmentSize)
	l := m.New()
	segments(l, 10)
	st := l.Stat()
	if u := m.Usage(); !errors.Is(u.Failure, syscall.ENOSPC) {
		t.Errorf("usage: %+v", u)
	}
	if st.Loss != (output.Loss{Disk: st.Dropped}) || st.Dropped != 5*output.SegmentSize || outputtest.CheckPattern(t, l) != st.End-st.Dropped {
		t.Errorf("full: %+v", st)
	}
	if !cmp.Equal(st.Gaps, []output.Range{{2 * output.SegmentSize, 7 * output.SegmentSize}}) {
		t.Errorf("gone is %v, want what is neither the beginning nor the newest", st.Gaps)
	}
	d.setRoom(1 << 40)
	segments(l, 10)
	if u := m.Usage(); u.Failure != nil {
		t.Errorf("with room again: %+v", u)
	}
	if after := l.Stat(); after.Dropped != st.Dropped || outputtest.CheckPattern(t, l) != after.End-st.Dropped {
		t.Errorf("with room again: %+v", after)
	}
	if n := held(l); n != 0 {
		t.Errorf("%d segments are still in memory", n)
	}
}

// Logs that are written, finished, discarded and read at the same time never show bytes of each
// other, and stay within the limit.
func TestLogsNeverShowEachOther(t *testing.T) {
	const limit = 20 * (32 << 10)
	m := sharing(t, limit, 512<<10) // in segments of 32 KiB
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for round := range 3 {
				l := m.New()
				var reader sync.WaitGroup
				stop := make(chan struct{})
				reader.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							outputtest.CheckPattern(t, l)
						}
					}
				})
				for range 4 + (w+round)%3 {
					segments(l, 1)
				}
				l.Finish()
				segments(l, 2)
				if u := m.Usage(); u.Bytes > limit {
					t.Errorf("%d bytes on disk", u.Bytes)
				}
				got := outputtest.CheckPattern(t, l)
				if st := l.Stat(); got < st.End-st.Dropped {
					t.Errorf("%d bytes were readable: %+v", got, st)
				}
				if round%2 == 0 {
					l.Discard()
				}
				close(stop)
				reader.Wait()
			}
		})
	}
	writers.Wait()
}
