package output_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// held returns how many sealed segments are in memory.
func held(l output.TestLog) int {
	n, _ := l.Held()
	return n
}

func TestDiskIsUsedOnlyForMoreThanASegment(t *testing.T) {
	l, dir := onDisk(t, 0)
	l.Write(output.TTY, make([]byte, output.SegmentSize))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the disk was used for %d bytes: %v", output.SegmentSize, err)
	}
	l.Write(output.TTY, []byte("x"))
	l.Flushed()
	info := must.Get(os.Stat(dir))(t)
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("mode of the directory: %o", got)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 0 {
		t.Errorf("files that a SIGKILL would leave: %v, %v", names, err)
	}
	if held(l) != 0 {
		t.Error("a segment is on disk and in memory")
	}
	c := l.Read(output.SegmentSize-1, 10)
	if c.Next != output.SegmentSize+1 || len(c.Spans) != 1 || string(c.Spans[0].Data) != "\x00x" {
		t.Errorf("read across the border: %+v", c)
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
	l.Flushed()
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

func TestDiscardDropsSealedSegments(t *testing.T) {
	l, _ := onDisk(t, 0)
	l.Write(output.Stdout, make([]byte, output.SegmentSize+10))
	l.Discard()
	want := output.Stat{End: output.SegmentSize + 10, Final: -1, Dropped: output.SegmentSize, Gaps: []output.Range{{0, output.SegmentSize}}}
	if d := cmp.Diff(want, l.Stat(), withoutTime); d != "" {
		t.Error(d)
	}
	if err := l.Wait(t.Context(), output.SegmentSize+10); err != nil {
		t.Errorf("waiting for more: %v", err)
	}
	if c := l.Read(0, 100); c.Dropped != output.SegmentSize || c.Next-c.From != 10 {
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
		write() // until the first segment is full
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

// While the disk takes a segment, readers don't wait for it, and the writer does once the backlog
// is full.
func TestSlowDiskSlowsTheWriterOnly(t *testing.T) {
	real := t.TempDir()
	begun, release := make(chan struct{}, 100), make(chan struct{}) // room for all writes
	s := output.NewTestStore(output.Config{Dir: func() (string, error) { return real, nil }})
	s.WrapFile(func(f output.RawFile) output.RawFile { return slowFile{f, begun, release} })
	l := s.New()
	written := make(chan struct{})
	go func() { // ends when the disk does
		for range 10 {
			l.Write(output.Stdout, make([]byte, output.SegmentSize))
		}
		l.Finish()
		close(written)
	}()
	<-begun
	if c := l.Read(0, 100); c.Next != 100 {
		t.Errorf("read up to %d while the disk writes", c.Next)
	}
	for l.Stat().End < (1+output.MaxBacklog)*output.SegmentSize {
		<-time.After(time.Millisecond)
	}
	select {
	case <-written:
		t.Error("ten segments were written to a disk that takes none")
	default:
	}
	if end := l.Stat().End; end > (2+output.MaxBacklog)*output.SegmentSize {
		t.Errorf("%d bytes wait for the disk", end)
	}
	close(release)
	<-written
	if st := l.Stat(); st.End != 10*output.SegmentSize || st.Dropped != 0 {
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
