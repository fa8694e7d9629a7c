package output_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
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
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/racetest"
)

const page = 4 << 10 // every file takes that much

// sharing returns a store on a real disk that keeps limit bytes of all logs there, and at most most
// bytes of one log.
func sharing(t *testing.T, limit, most int64) output.TestStore {
	dir := t.TempDir()
	return output.NewTestStore(output.Config{Cap: most, Disk: limit, Dir: func() (string, error) { return dir, nil }})
}

// segments writes n times 256 KiB of a pattern.
func segments(l output.Log, n int) {
	b := make([]byte, output.SegmentSize)
	for range n {
		outputtest.Pattern(b, l.Stat().End)
		l.Write(output.Stdout, b)
	}
}

// wantKept fails the test unless that many bytes of the log can be read.
func wantKept(t *testing.T, what string, l output.Log, want int64) {
	t.Helper()
	if got := outputtest.CheckPattern(t, l); got != want {
		t.Errorf("%s: %d bytes are left, want %d", what, got, want)
	}
}

// The logs that were finished first make room on disk, and the bytes they lose are counted exactly.
func TestFinishedLogsMakeRoom(t *testing.T) {
	const size, limit = output.SegmentSize, 12*output.SegmentSize + 4*page // each log has a page of labels
	m := sharing(t, limit, 0)
	first, second, running, last := m.New(), m.New(), m.New(), m.New()
	usage := func(when string, want output.Usage) {
		t.Helper()
		got := m.Usage()
		want.Limit, want.Dir = limit, got.Dir
		if got != want || got.Dir == "" {
			t.Errorf("%s: usage %+v, want %+v", when, got, want)
		}
	}
	for _, l := range []output.TestLog{first, second, running} {
		segments(l, 4)
	}
	first.Finish()
	second.Finish()
	segments(last, 4)
	const left = output.Shortest // in memory of an evicted log
	gone := output.Stat{End: 4 * size, Final: 4 * size, Dropped: 4*size - left, Gaps: []output.Range{{0, 4*size - left}}, Loss: output.Loss{Limit: 4*size - left}}
	if d := cmp.Diff(gone, first.Stat(), withoutTime); d != "" {
		t.Errorf("the first to finish: %s", d)
	}
	wantKept(t, "the first to finish", first, left)
	wantKept(t, "the second to finish", second, 4*size)
	wantKept(t, "an unfinished log", running, 4*size)
	wantKept(t, "the last log", last, 4*size)
	usage("with room", output.Usage{Bytes: 12*size + 3*page})

	// An unfinished log loses nothing to another: of bytes that don't fit, the newest stay in memory.
	segments(last, 4)
	wantKept(t, "the second to finish", second, left)
	segments(last, 8)
	wantKept(t, "an unfinished log", running, 4*size)
	full := last.Stat()
	if full.Loss.Limit != 4*size || full.Loss.Limit != full.Dropped {
		t.Errorf("an unfinished log without room: %+v", full)
	}
	wantKept(t, "an unfinished log without room", last, full.End-full.Dropped)
	usage("without room", output.Usage{Bytes: 12*size + 2*page, Failure: output.ErrLimit})

	// With room again, the bytes in memory go to disk.
	running.Finish()
	usage("with a log that can make room", output.Usage{Bytes: 12*size + 2*page})
	segments(last, 0)
	last.Flush()
	st := last.Stat()
	if st.Dropped != full.Dropped || held(last) != 0 {
		t.Errorf("with room again: %+v, %d bytes held", st, held(last))
	}
	wantKept(t, "with room again", last, st.End-st.Dropped)
	wantKept(t, "the next to finish", running, left)
	usage("with room again", output.Usage{Bytes: 12*size + page})

	// Late output of an evicted log is kept like any other.
	last.Discard()
	segments(first, 2)
	wantKept(t, "late output", first, left+2*size)
}

// What others have on disk counts, and they make room before a log loses anything.
func TestOthersMakeRoomFirst(t *testing.T) {
	const size = output.SegmentSize
	dir, others, asked := t.TempDir(), int64(8*size), []int64(nil)
	m := output.NewTestStore(output.Config{
		Disk: 12*size + 4*page, Dir: func() (string, error) { return dir, nil },
		Others: func() int64 { return others },
		MakeRoom: func(need int64) bool {
			asked = append(asked, need)
			freed := min(others, 4*size)
			others -= freed
			return freed > 0
		},
	})
	ended, l := m.New(), m.New()
	segments(ended, 4)
	ended.Finish()
	segments(l, 8)
	wantKept(t, "a finished log", ended, 4*size)
	if others != 0 || len(asked) != 2 || asked[0] <= 0 {
		t.Errorf("the others have %d bytes, and were asked for %v", others, asked)
	}
	segments(l, 1)
	wantKept(t, "a finished log when the others have nothing", ended, output.Shortest)
	wantKept(t, "the unfinished log", l, 9*size)
}

func TestDiscardRemovesTheFiles(t *testing.T) {
	m := sharing(t, 0, 0)
	a, b := m.New(), m.New()
	for _, l := range []output.TestLog{a, b} {
		segments(l, 4)
		attach(l, mega)
	}
	dir := m.Usage().Dir
	if names := must.Get(os.ReadDir(dir))(t); len(names) != 2 {
		t.Errorf("the directory has %v", names)
	}
	a.Discard()
	if names := must.Get(os.ReadDir(dir))(t); len(names) != 1 || m.Usage().Bytes != 4*output.SegmentSize+mega+page {
		t.Errorf("the directory has %v, usage %+v", names, m.Usage())
	}
	wantKept(t, "the other log", b, 4*output.SegmentSize)
	if b.Discard(); m.Usage().Bytes != 0 {
		t.Errorf("usage %+v", m.Usage())
	}
}

// openFiles returns how many files below dir this process has open.
func openFiles(t *testing.T, dir string) (n int) {
	needtest.Linux(t, "a list of descriptors")
	for _, fd := range must.Get(os.ReadDir("/proc/self/fd"))(t) {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// Two thousand logs that are written and read in turn, and their attachments, have few open files.
func TestManyLogsHaveFewOpenFiles(t *testing.T) {
	m := sharing(t, 0, 0)
	const n, each = 2000, 5000
	logs := make([]output.TestLog, n)
	b := make([]byte, each)
	most := 0
	for i := range logs {
		logs[i] = m.New()
		outputtest.Pattern(b, 0)
		logs[i].Write(output.Stdout, b)
		if i%100 == 0 {
			attach(logs[i], 1000)
			most = max(most, openFiles(t, m.Usage().Dir))
		}
	}
	var readers sync.WaitGroup
	for part := range 100 { // more than can be open
		readers.Go(func() {
			for i := part; i < n; i += 100 {
				outputtest.Pattern(b[:0], each)
				logs[i].Write(output.Stderr, []byte("more"))
				if got := logs[i].Read(each-1, 10); got.Next != each+4 {
					t.Errorf("log %d: read up to %d", i, got.Next)
				}
			}
		})
	}
	readers.Wait()
	if most = max(most, openFiles(t, m.Usage().Dir)); most > output.MaxOpen || m.Descriptors() != output.MaxOpen {
		t.Errorf("%d descriptors for %d logs, %d in the table", most, n, m.Descriptors())
	}
	for _, l := range logs {
		l.Discard()
	}
	if left := openFiles(t, m.Usage().Dir); left != 0 {
		t.Errorf("%d descriptors are left", left)
	}
}

// A full table of descriptors costs nothing that fits into memory.
func TestFullTableOfDescriptorsLosesNothing(t *testing.T) {
	m := sharing(t, 0, 0)
	full := true
	m.WrapOpen(func(open func() (output.RawFile, error)) (output.RawFile, error) {
		if full {
			return nil, &fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}
		}
		return open()
	})
	l := m.New()
	segments(l, 3)
	if u := m.Usage(); !errors.Is(u.Failure, syscall.EMFILE) {
		t.Errorf("full: usage %+v", u)
	}
	wantKept(t, "full", l, 3*output.SegmentSize)
	full = false
	segments(l, 3)
	if st := l.Stat(); st.Dropped != 0 || held(l) != 0 || m.Usage().Failure != nil {
		t.Errorf("with room again: %+v, %d bytes held, usage %+v", st, held(l), m.Usage())
	}
	wantKept(t, "with room again", l, 6*output.SegmentSize)
}

// The middle of a log is dropped when its cap is reached, and counted exactly. So is its space.
func TestCapKeepsBothHalvesAtAnySize(t *testing.T) {
	racetest.Skip(t)
	for _, limit := range []int64{4096, 4097, 5003, 65_537, output.SegmentSize, output.SegmentSize + 1, 300_001, 1<<20 - 1, 16<<18 + 1, 5_000_011} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			m := sharing(t, 0, limit)
			l := m.New()
			b := make([]byte, 777*(1+limit/100_000))
			for i := 0; l.Stat().End < 3*limit; i++ {
				outputtest.Pattern(b, l.Stat().End)
				l.Write(output.Stream(i%2), b)
			}
			st, step := l.Stat(), l.Step()
			kept := st.End - st.Dropped
			if got := outputtest.CheckPattern(t, l); got != kept {
				t.Errorf("%d bytes can be read, %d are counted", got, kept)
			}
			if kept > limit+step || kept < limit {
				t.Errorf("kept %d", kept)
			}
			if len(st.Gaps) != 1 || st.Loss.Cap != st.Dropped {
				t.Fatalf("%+v", st)
			}
			if g := st.Gaps[0]; g.From != limit/2 || st.End-g.To < limit/2 {
				t.Errorf("the first %d and the last %d of %d are kept, want half each", g.From, st.End-g.To, limit)
			}
			blocks := int64(0)
			for _, name := range []string{"output.log", "output.streams"} {
				info := must.Get(os.Stat(filepath.Join(m.Usage().Dir, "log1", name)))(t)
				blocks += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			if got := m.Usage().Bytes; got < kept || got > kept+4*page || blocks > got {
				t.Errorf("%d bytes are counted and %d taken for %d", got, blocks, kept)
			}
			l.Finish()
			past := output.OpenPast(output.FilesOf(filepath.Join(m.Usage().Dir, "log1")), output.Stat{Final: -1}, nil)
			if d := cmp.Diff(l.Stat(), past.Stat(), withoutTime); d != "" {
				t.Errorf("a later run finds %s", d)
			}
			if got := outputtest.CheckPattern(t, past); got != kept {
				t.Errorf("a later run finds %d bytes of %d", got, kept)
			}
		})
	}
}

// On a file system without holes, a log that has reached its cap keeps its newest bytes in memory.
func TestCapWithoutHoles(t *testing.T) {
	const limit = 4 << 20
	m := sharing(t, 0, limit)
	m.WrapFiles(func(_ string, f output.RawFile) output.RawFile { return solidFile{f} })
	l := m.New()
	segments(l, 100)
	st := l.Stat()
	if u := m.Usage(); u.Bytes > limit+l.Step()+output.SegmentSize || u.Failure != nil {
		t.Errorf("usage %+v", u)
	}
	wantKept(t, "without holes", l, st.End-st.Dropped)
	if st.Loss != (output.Loss{Cap: st.Dropped}) || outputtest.Contains(st.Gaps, 0) || outputtest.Contains(st.Gaps, st.End-output.SegmentSize) {
		t.Errorf("%+v", st)
	}
}

// A solidFile has no holes.
type solidFile struct{ output.RawFile }

func (solidFile) Punch(off, n int64) error { return errors.ErrUnsupported }

// A fullDisk takes room bytes and no more.
type fullDisk struct {
	mu   sync.Mutex
	room int64
}

// A fullFile is a file of a fullDisk.
type fullFile struct {
	output.RawFile
	path string
	disk *fullDisk
}

func (f fullFile) WriteAt(p []byte, off int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.HasSuffix(f.path, ".streams") && d.room > 0 {
		return f.RawFile.WriteAt(p, off) // its one page has room
	}
	fits := min(d.room, int64(len(p)))
	n, err := f.RawFile.WriteAt(p[:fits], off)
	d.room -= fits
	if err == nil && n < len(p) {
		err = &fs.PathError{Op: "write", Path: f.path, Err: syscall.ENOSPC}
	}
	return n, err
}

// withRoom puts a fullDisk under the logs of m.
func withRoom(m output.TestStore, room int64) *fullDisk {
	d := &fullDisk{room: room}
	m.WrapFiles(func(path string, f output.RawFile) output.RawFile { return fullFile{f, path, d} })
	return d
}

func (d *fullDisk) setRoom(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = n
}

// The space that is counted is what the disk has taken. It takes a segment in one piece or not at
// all: a part that it has taken is given back.
func TestUsageIsWhatTheDiskTook(t *testing.T) {
	const size = output.SegmentSize
	for what, write := range map[string]func(output.TestLog){
		"output":      func(l output.TestLog) { segments(l, 4) },
		"attachments": func(l output.TestLog) { attach(l, 4*size) },
	} {
		for _, test := range []struct{ room, want int64 }{
			{0, 0}, {100, 0}, {size / 2, 0}, {size, size + page}, {size + 1, size + page}, {5*size/2 + 1, 2*size + page},
		} {
			t.Run(fmt.Sprintf("%s, %d bytes", what, test.room), func(t *testing.T) {
				m := sharing(t, 0, 0)
				d := withRoom(m, test.room)
				want := test.want
				if what == "attachments" {
					want = 0 // they are one piece
				}
				l := m.New()
				for range 2 {
					write(l)
					if u := m.Usage(); u.Bytes != want || !errors.Is(u.Failure, syscall.ENOSPC) {
						t.Errorf("full: usage %+v, want %d bytes", u, want)
					}
				}
				l.Discard()
				l = m.New()
				d.setRoom(math.MaxInt64)
				write(l)
				if u := m.Usage(); u.Bytes < 4*size || u.Bytes > 4*size+page || u.Failure != nil {
					t.Errorf("with room again: usage %+v, want %d bytes", u, 4*size)
				}
			})
		}
	}
}

// Labels count. Those that do not fit are not counted, and label nothing.
func TestUsageWithoutRoomForLabels(t *testing.T) {
	m := sharing(t, 0, 0)
	d := withRoom(m, 0)
	l, model := m.New(), new(outputtest.Model)
	write := func() {
		for range 1000 {
			for s, b := range []string{"out", "err"} {
				l.Write(output.Stream(s), []byte(b))
				model.Write(output.Stream(s), []byte(b))
			}
		}
	}
	write()
	if u := m.Usage(); u.Bytes != 0 || !errors.Is(u.Failure, syscall.ENOSPC) {
		t.Errorf("usage %+v", u)
	}
	d.setRoom(math.MaxInt64)
	l.Flush()
	if u := m.Usage(); u.Bytes != 2*page+4*page || u.Failure != nil { // 6,000 bytes, 2,000 labels
		t.Errorf("with room again: usage %+v", u)
	}
	write()
	model.Compare(t, l, 1000)
}

// On a full disk a log keeps its newest bytes in memory. When there is room again, nothing more is
// lost.
func TestFullDiskLosesTheMiddleOnly(t *testing.T) {
	const size = output.SegmentSize
	m := sharing(t, 0, 0)
	d := withRoom(m, 2*size)
	l := m.New()
	segments(l, 10)
	st := l.Stat()
	if u := m.Usage(); !errors.Is(u.Failure, syscall.ENOSPC) {
		t.Errorf("usage: %+v", u)
	}
	if st.Loss != (output.Loss{Disk: st.Dropped}) || st.Dropped != 4*size || outputtest.CheckPattern(t, l) != st.End-st.Dropped {
		t.Errorf("full: %+v", st)
	}
	if !cmp.Equal(st.Gaps, []output.Range{{2 * size, 6 * size}}) {
		t.Errorf("gone is %v, want what is neither the beginning nor the newest", st.Gaps)
	}
	d.setRoom(math.MaxInt64)
	segments(l, 10)
	if u := m.Usage(); u.Failure != nil || u.Bytes != 16*size+page {
		t.Errorf("with room again: %+v", u)
	}
	if after := l.Stat(); after.Dropped != st.Dropped || outputtest.CheckPattern(t, l) != after.End-st.Dropped {
		t.Errorf("with room again: %+v", after)
	}
	if n := held(l); n != 0 {
		t.Errorf("%d bytes are still in memory", n)
	}
	past := output.OpenPast(output.FilesOf(filepath.Join(m.Usage().Dir, "log1")), output.Stat{Final: -1}, nil)
	if d := cmp.Diff(st.Gaps, past.Stat().Gaps); d != "" {
		t.Errorf("a later run finds other gaps: %s", d)
	}
	wantKept(t, "in a later run", past, 16*size)
}

// Something else in the place of a file or directory costs a log bytes that are counted, and
// nothing else: it is not removed with the log.
func TestSomethingElseInTheFilesPlace(t *testing.T) {
	const size = output.SegmentSize
	for name, occupy := range map[string]func(dir string) error{
		"directory for output.log":     func(dir string) error { return os.MkdirAll(dir+"/log1/output.log", 0o700) },
		"directory for output.streams": func(dir string) error { return os.MkdirAll(dir+"/log1/output.streams/x", 0o700) },
		"file for the directory":       func(dir string) error { return os.WriteFile(dir+"/log1", nil, 0o600) },
		"link": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/log1", 0o700), os.Symlink("/x", dir+"/log1/output.log"))
		},
		"pipe": func(dir string) error {
			return errors.Join(os.Mkdir(dir+"/log1", 0o700), syscall.Mkfifo(dir+"/log1/output.log", 0o600))
		},
		"directory that can't be made": func(dir string) error { return os.RemoveAll(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/run"
			if err := errors.Join(os.Mkdir(dir, 0o700), occupy(dir)); err != nil {
				t.Fatal(err)
			}
			if name == "directory that can't be made" {
				if err := os.WriteFile(dir, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := output.NewTestStore(output.Config{Dir: func() (string, error) { return dir, nil }})
			l := m.New()
			segments(l, 10)
			l.Flush()
			l.Finish()
			st := l.Stat()
			if st.Loss != (output.Loss{Disk: 6 * size}) || m.Usage().Failure == nil || m.Usage().Bytes != 0 {
				t.Errorf("%+v, usage %+v", st, m.Usage())
			}
			wantKept(t, "the rest", l, 4*size)
			before := fmt.Sprint(filepath.Glob(dir + "/log1/*"))
			past := output.OpenPast(output.FilesOf(dir+"/log1"), st, nil)
			past.Read(0, 10)
			if got := past.Stat(); got.Dropped != 10*size {
				t.Errorf("a later run finds %+v", got)
			}
			l.Discard()
			if after := fmt.Sprint(filepath.Glob(dir + "/log1/*")); !strings.Contains(before, after[1:min(len(after), 20)]) {
				t.Errorf("before %s, after %s", before, after)
			}
		})
	}
}

// Logs that are written, finished, discarded and read at the same time never show bytes of each
// other, and stay within the limit.
func TestLogsNeverShowEachOther(t *testing.T) {
	const limit = 5 << 20
	m := sharing(t, limit, 2<<20)
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
				for range 8 + (w+round)%3 {
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
