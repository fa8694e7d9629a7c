package output_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"asyncrepl/internal/output"
	"asyncrepl/internal/output/outputtest"
	"asyncrepl/internal/test/must"
)

// onDisk returns a log on a real disk, and its directory.
func onDisk(tb testing.TB, limit int64) (output.TestLog, string) {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "output")
	l := output.NewTestStore(output.Config{Cap: limit, Dir: func() (string, error) { return dir, nil }}).New()
	tb.Cleanup(l.Discard)
	return l, dir
}

// withoutTime makes cmp ignore when the last bytes came.
var withoutTime = cmpopts.IgnoreFields(output.Stat{}, "Last")

// held returns how many bytes are in memory.
func held(l output.TestLog) int {
	n, _ := l.Held()
	return n
}

// No file is made until a log is flushed or has more than 4 KiB. Then its bytes are at their cursor
// in output.log.
func TestFilesAreMadeWhenNeeded(t *testing.T) {
	for name, more := range map[string]func(l output.Log){
		"flushed": func(l output.Log) { l.Flush() },
		"longer":  func(l output.Log) { l.Write(output.TTY, []byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			l, dir := onDisk(t, 0)
			b := make([]byte, output.Shortest)
			outputtest.Pattern(b, 0)
			l.Write(output.TTY, b)
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the disk was used for %d bytes: %v", output.Shortest, err)
			}
			more(l)
			l.Write(output.Stderr, []byte("yz"))
			end := l.Stat().End
			got := must.Get(os.ReadFile(filepath.Join(dir, "log1", "output.log")))(t)
			if !bytes.HasPrefix(got, b) || !bytes.HasSuffix(got, []byte("yz")) || int64(len(got)) != end || held(l) != 0 {
				t.Errorf("%d bytes in the file, %d in memory, of %d", len(got), held(l), end)
			}
			for path, mode := range map[string]os.FileMode{dir: 0o700, dir + "/log1": 0o700, dir + "/log1/output.log": 0o600, dir + "/log1/output.streams": 0o600} {
				if got := must.Get(os.Stat(path))(t).Mode().Perm(); got != mode {
					t.Errorf("mode of %s: %o", path, got)
				}
			}
			if _, short := l.Short(); short {
				t.Error("a log with a file is short")
			}
		})
	}
}

// A short log has no file. Its spans are all that there is to keep.
func TestShort(t *testing.T) {
	l, dir := onDisk(t, 0)
	l.Write(output.Stdout, []byte("out"))
	l.Write(output.Result, []byte("42"))
	if _, ok := l.Short(); ok {
		t.Error("an unfinished log is short")
	}
	l.Finish()
	want := []output.Span{{output.Stdout, []byte("out")}, {output.Result, []byte("42")}}
	got, ok := l.Short()
	if d := cmp.Diff(want, got); d != "" || !ok {
		t.Error(ok, d)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the disk was used: %v", err)
	}
	past := output.OpenPast(output.FilesOf(dir+"/log1"), l.Stat(), got)
	past.Write(output.Stdout, []byte("ignored"))
	if d := cmp.Diff(want, past.Read(0, 100).Spans); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(l.Stat(), past.Stat()); d != "" {
		t.Error(d)
	}
	if set := past.Streams(3, 5); set != output.Streams(0).With(output.Result) {
		t.Errorf("streams %b", set)
	}
}

// A directory that can't be used is a full disk from the start: beginning and end stay in memory.
func TestNoDirectoryKeepsBothEndsInMemory(t *testing.T) {
	l := output.NewTestStore(output.Config{Dir: func() (string, error) { return "", errors.New("no directory") }}).New()
	b := make([]byte, output.SegmentSize)
	const n = 20
	for i := range int64(n) {
		outputtest.Pattern(b, i*output.SegmentSize)
		l.Write(output.Stdout, b)
	}
	want := output.Stat{End: n * output.SegmentSize, Final: -1, Dropped: (n - 4) * output.SegmentSize, Gaps: []output.Range{{output.SegmentSize, (n - 3) * output.SegmentSize}}, Loss: output.Loss{Disk: (n - 4) * output.SegmentSize}}
	if d := cmp.Diff(want, l.Stat(), withoutTime); d != "" {
		t.Error(d)
	}
}

func TestDefaultCapWithoutDisk(t *testing.T) {
	l := output.NewStore(output.Config{}).NewLog("")
	for range 3 << 10 {
		l.Write(output.Stdout, make([]byte, 1<<10))
	}
	if st := l.Stat(); st.Loss.Disk != 0 || st.End-st.Dropped < 1<<20 || st.End-st.Dropped > 1<<20+128<<10 {
		t.Errorf("of 3 MiB without a directory: %+v", st)
	}
}

func TestDiscardDropsAll(t *testing.T) {
	l, _ := onDisk(t, 0)
	l.Write(output.Stdout, make([]byte, output.SegmentSize+10))
	l.Discard()
	want := output.Stat{End: output.SegmentSize + 10, Final: -1, Dropped: output.SegmentSize + 10, Gaps: []output.Range{{0, output.SegmentSize + 10}}}
	if d := cmp.Diff(want, l.Stat(), withoutTime); d != "" {
		t.Error(d)
	}
	if err := l.Wait(t.Context(), output.SegmentSize+10); err != nil {
		t.Errorf("waiting for more: %v", err)
	}
	if c := l.Read(0, 100); c.Dropped != output.SegmentSize+10 || c.Next != c.From {
		t.Errorf("read: %+v", c)
	}
}

func TestWriteAllocatesNothing(t *testing.T) {
	l, _ := onDisk(t, 0)
	b := make([]byte, 4<<10)
	write := func() {
		l.Write(output.Stdout, b)
		l.Write(output.Stderr, b[:100])
	}
	for range 100 {
		write() // the buffers reach their size
	}
	if n := testing.AllocsPerRun(1000, write); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Finished logs are kept for long: memory that was reserved for more output is given back, and late
// output still finds its place.
func TestFinishGivesBackMemory(t *testing.T) {
	l := output.NewTestStore(output.Config{}).New()
	for range 100 {
		l.Write(output.Stdout, []byte("out"))
		l.Write(output.Stderr, []byte("err"))
	}
	l.Finish()
	if n := l.Memory(); n > 600+200+64 { // bytes, a label each, and what an allocation rounds up
		t.Errorf("600 bytes in %d", n)
	}
	l.Write(output.Stdout, []byte("late"))
	want := []output.Span{{output.Stderr, []byte("err")}, {output.Stdout, []byte("late")}}
	if d := cmp.Diff(want, l.Read(597, 100).Spans); d != "" {
		t.Error(d)
	}
}

func TestStreamsOfRangesOfALongLog(t *testing.T) {
	l, _ := onDisk(t, 0)
	l.Write(output.Stderr, []byte("careful\n"))
	line := make([]byte, 64<<10)
	for range 200 {
		l.Write(output.Stdout, line)
	}
	l.Write(output.Stderr, []byte("Traceback\n"))
	end := l.Stat().End
	for r, want := range map[output.Range]string{
		{0, end}:      "stdout stderr",
		{8, end - 10}: "stdout",
		{7, end - 10}: "stdout stderr",
		{8, end - 9}:  "stdout stderr",
		{0, 8}:        "stderr",
		{8, 8}:        "",
	} {
		var got []string
		for _, s := range []output.Stream{output.Stdout, output.Stderr, output.TTY} {
			if l.Streams(r.From, r.To).Has(s) {
				got = append(got, s.String())
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%v: %q, want %q", r, got, want)
		}
	}
}

// However many changes of stream there are, the streams of a range are found in few reads, in a log
// of this run and in a later one.
func TestStreamsTakesFewReads(t *testing.T) {
	dir, reads := t.TempDir(), new(atomic.Int64)
	s := output.NewTestStore(output.Config{Dir: func() (string, error) { return dir, nil }})
	s.WrapFiles(func(_ string, f output.RawFile) output.RawFile { return countedFile{f, reads} })
	l := s.New()
	b := make([]byte, 10_000)
	l.Write(output.Result, b[:1])
	const changes = 100_000
	for i := range changes {
		l.Write(output.Stream(i%2), b[:1+i%3])
	}
	end := l.Stat().End
	for r, want := range map[output.Range]output.Streams{
		{0, end}:             0b1011,
		{1, end}:             0b11,
		{1, end - 1000}:      0b11,
		{end / 3, end / 2}:   0b11,
		{2, 4}:               0b10,
		{end / 7, end/7 + 1}: l.Streams(end/7, end/7+1),
	} {
		before := reads.Load()
		if got := l.Streams(r.From, r.To); got != want {
			t.Errorf("streams of %v: %b, want %b", r, got, want)
		}
		if n := reads.Load() - before; n > 200 { // 17 to find each end, and at most 17*17/2 between them
			t.Errorf("%d reads for %v", n, r)
		}
	}
	l.Finish()
	past := output.OpenPast(output.FilesOf(dir+"/log1"), l.Stat(), nil)
	if got := past.Streams(1, end); got != 0b11 {
		t.Errorf("in a later run: %b", got)
	}
}

// A countedFile counts what is read of it.
type countedFile struct {
	output.RawFile
	reads *atomic.Int64
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads.Add(1)
	return f.RawFile.ReadAt(p, off)
}

// While the disk takes bytes, readers don't wait for it, and the writer does.
func TestSlowDiskSlowsTheWriterOnly(t *testing.T) {
	dir := t.TempDir()
	begun, release := make(chan struct{}, 100), make(chan struct{}) // room for all writes
	s := output.NewTestStore(output.Config{Dir: func() (string, error) { return dir, nil }})
	l := s.New()
	segments(l, 1)
	s.WrapFiles(func(path string, f output.RawFile) output.RawFile { return slowFile{f, begun, release} })
	s.CloseFiles()
	written := make(chan struct{})
	go func() { // ends when the disk does
		segments(l, 10)
		l.Finish()
		close(written)
	}()
	<-begun
	if got := outputtest.CheckPattern(t, l); got != output.SegmentSize || l.Streams(0, 100) == 0 || l.Stat().Final >= 0 {
		t.Errorf("%d bytes can be read while the disk writes", got)
	}
	select {
	case <-written:
		t.Error("bytes were written to a disk that takes none")
	default:
	}
	close(release)
	<-written
	if st := l.Stat(); st.End != 11*output.SegmentSize || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
}

// A slowFile writes when it is released.
type slowFile struct {
	output.RawFile
	begun   chan<- struct{}
	release <-chan struct{}
}

func (f slowFile) WriteAt(p []byte, off int64) (int, error) {
	f.begun <- struct{}{}
	<-f.release
	return f.RawFile.WriteAt(p, off)
}

// A log knows within a second what was written when, for the last ten seconds, and remembers little
// for that, however often it is written.
func TestLogKnowsWhatWasWrittenBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := output.NewTestStore(output.Config{}).New()
		begin := time.Now()
		if n := l.Before(begin); n != 0 {
			t.Errorf("an empty log: %d", n)
		}
		for range 3000 { // a byte each 10 ms
			l.Write(output.Stdout, []byte("x"))
			time.Sleep(10 * time.Millisecond)
		}
		now := time.Now()
		for ago := time.Duration(0); ago <= output.Recent; ago += 70 * time.Millisecond {
			written := int64(now.Add(-ago).Sub(begin)/(10*time.Millisecond)) + 1 // by then
			if got := l.Before(now.Add(-ago)); got > written || got < written-101 {
				t.Errorf("%v ago: %d of %d", ago, got, written)
			}
		}
		if n := l.Times(); n > 13 {
			t.Errorf("%d times are remembered", n)
		}
		time.Sleep(time.Hour)
		if n := l.Before(time.Now().Add(-output.Recent)); n != 3000 {
			t.Errorf("after an hour: %d", n)
		}
		l.Write(output.Stdout, []byte("x"))
		if n := l.Before(time.Now().Add(-output.Recent)); n != 3000 {
			t.Errorf("after one more: %d", n)
		}
		l.Finish()
		if n := l.Times(); n != 0 {
			t.Errorf("%d times are remembered after the end", n)
		}
	})
}
