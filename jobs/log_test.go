package jobs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// spilling returns a log on a real disk, and its directory.
func spilling(tb testing.TB, limit int64) (*Log, string) {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "spill")
	l := NewMemory(LogConfig{Cap: limit, Dir: func() (string, error) { return dir, nil }}).NewLog("")
	tb.Cleanup(l.Close)
	return l, dir
}

// spilled waits until the log has written to disk what it could.
func spilled(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.spilling {
		l.awaitDisk()
	}
}

// pattern fills b with what belongs at pos, so that every byte tells its place.
func pattern(b []byte, pos int64) {
	for i := range b {
		p := pos + int64(i)
		b[i] = byte(p ^ p>>8 ^ p>>16)
	}
}

// streamAt is the stream of the 100 bytes around pos.
func streamAt(pos int64) Stream { return Stream(pos / 100 % 3) }

func TestLogInMemoryUntilItIsNot(t *testing.T) {
	l, dir := spilling(t, 0)
	l.Write(TTY, make([]byte, segmentSize))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("disk was touched for %d bytes: %v", segmentSize, err)
	}
	l.Write(TTY, []byte("x"))
	spilled(l)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("mode of the directory: %o", got)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 0 {
		t.Errorf("files that would be left after a SIGKILL: %v, %v", names, err)
	}
	if len(l.sealed.held) != 0 {
		t.Error("what was spilled is in memory as well")
	}
	if c := l.Read(segmentSize-1, 10); c.Next != segmentSize+1 || text(c) != "\x00x" {
		t.Errorf("read across the border: %d, %q", c.Next, text(c))
	}
}

// While a log is written at full speed and its tail goes round, every reader
// gets what was written where he reads, or is told what he missed.
func TestLogReadersAndWriter(t *testing.T) {
	const total, limit = 4 << 20, 512 << 10
	l, _ := spilling(t, limit)
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() { // ends with the log
			var cursor, dropped, got int64
			want := make([]byte, 8<<10)
			for cursor < total {
				c := l.Read(cursor, 1000+r*3000)
				at := c.From
				for _, s := range c.Spans {
					pattern(want[:len(s.Data)], at)
					if !bytes.Equal(want[:len(s.Data)], s.Data) {
						t.Errorf("bytes at %d: got %q, want %q", at, s.Data, want[:len(s.Data)])
						return
					}
					if s.Stream != streamAt(at) || s.Stream != streamAt(at+int64(len(s.Data))-1) {
						t.Errorf("stream %v at %d", s.Stream, at)
						return
					}
					at += int64(len(s.Data))
				}
				got += at - c.From
				dropped += c.Dropped
				cursor = c.Next
				if at == c.From {
					_ = l.Wait(t.Context(), cursor)
				}
			}
			if got+dropped != total {
				t.Errorf("got %d and missed %d of %d", got, dropped, total)
			}
		})
	}
	b := make([]byte, 100)
	for pos := int64(0); pos < total; pos += int64(len(b)) {
		b = b[:min(100, total-pos)]
		pattern(b, pos)
		l.Write(streamAt(pos), b)
	}
	l.Finish()
	readers.Wait()
	const size = limit / minSegments
	if st := l.Stat(); st.End != total || st.Final != total || st.Dropped != total-limit-size || st.Loss != (Loss{Cap: st.Dropped}) {
		t.Errorf("%+v", st)
	}
}

// A directory that can't be had is a full disk from the start: beginning and end
// are kept in memory.
func TestLogWithoutDisk(t *testing.T) {
	l := NewMemory(LogConfig{Dir: func() (string, error) { return "", errDisk }}).NewLog("")
	b := make([]byte, segmentSize)
	const n = 20
	for i := range int64(n) {
		pattern(b, i*segmentSize)
		l.Write(Stdout, b)
	}
	spilled(l)
	st := l.Stat()
	want := LogStat{End: n * segmentSize, Final: -1, Dropped: (n - 4) * segmentSize, Gaps: []Range{{segmentSize, (n - 3) * segmentSize}}, Loss: Loss{Disk: (n - 4) * segmentSize}}
	if d := cmp.Diff(want, st); d != "" {
		t.Error(d)
	}
}

func TestLogWithoutDir(t *testing.T) {
	l := NewMemory(LogConfig{}).NewLog("")
	for range 3 << 10 {
		l.Write(Stdout, make([]byte, 1<<10))
	}
	if st := l.Stat(); st.Loss.Disk != 0 || st.End-st.Dropped < 1<<20 || st.End-st.Dropped > 1<<20+128<<10 {
		t.Errorf("of 3 MiB without a directory: %+v", st)
	}
}

func TestLogClose(t *testing.T) {
	l, _ := spilling(t, 0)
	l.Write(Stdout, make([]byte, segmentSize+10))
	l.Close()
	l.Close()
	l.Write(Stdout, []byte("ignored"))
	want := LogStat{End: segmentSize + 10, Final: -1, Dropped: segmentSize, Gaps: []Range{{0, segmentSize}}}
	if d := cmp.Diff(want, l.Stat()); d != "" {
		t.Error(d)
	}
	if err := l.Wait(t.Context(), segmentSize+10); err != nil {
		t.Errorf("waiting for more: %v", err)
	}
	if c := l.Read(0, 100); c.Dropped != segmentSize || len(text(c)) != 10 {
		t.Errorf("read: %+v", c)
	}
}

func TestLogWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewMemory(LogConfig{}).NewLog("")
		start := time.Now()
		go func() { // ends within the test
			pass(time.Minute)
			l.Write(TTY, []byte("hi"))
			pass(time.Minute)
			l.Write(TTY, nil) // nothing to read: nobody wakes
			pass(time.Minute)
			l.Finish()
		}()
		if err := l.Wait(t.Context(), 0); err != nil || time.Since(start) != time.Minute {
			t.Errorf("for output: %v after %v", err, time.Since(start))
		}
		if err := l.Wait(t.Context(), 1); err != nil || time.Since(start) != time.Minute {
			t.Errorf("for output that is there: %v after %v", err, time.Since(start))
		}
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gaveUp)
		defer cancel()
		if err := l.Wait(ctx, 2); err != gaveUp {
			t.Errorf("with a context: %v", err)
		}
		if err := l.Wait(t.Context(), 2); err != nil || time.Since(start) != 3*time.Minute {
			t.Errorf("for the end: %v after %v", err, time.Since(start))
		}
	})
}

// To append to one span writes into no other.
func TestSpansAreApart(t *testing.T) {
	l := NewMemory(LogConfig{}).NewLog("")
	l.Write(Stdout, []byte("one"))
	l.Write(Stderr, []byte("two"))
	c := l.Read(0, 100)
	_ = append(c.Spans[0].Data, "3"...)
	want := []Span{{Stdout, []byte("one")}, {Stderr, []byte("two")}}
	if d := cmp.Diff(want, c.Spans); d != "" {
		t.Error(d)
	}
}

// A write takes no memory of its own when nobody waits.
func TestWriteAllocatesNothing(t *testing.T) {
	l, _ := spilling(t, 0)
	b := make([]byte, 4<<10)
	write := func() {
		l.Write(Stdout, b)
		l.Write(Stderr, b[:100])
	}
	for range 100 {
		write() // until the first segment is full
	}
	if n := testing.AllocsPerRun(1000, write); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Ended jobs are kept for long: what was reserved for more output is given back,
// and what comes late still finds its place.
func TestFinishGivesBackMemory(t *testing.T) {
	l := NewMemory(LogConfig{}).NewLog("")
	for range 100 {
		l.Write(Stdout, []byte("out"))
		l.Write(Stderr, []byte("err"))
	}
	l.Finish()
	if n := cap(l.active.data) + cap(l.active.runs); n > 600+200+64 { // bytes, a label each, and what an allocation rounds up
		t.Errorf("600 bytes in %d", n)
	}
	l.Write(Stdout, []byte("late"))
	if c := l.Read(597, 100); text(c) != "errlate" || len(c.Spans) != 2 {
		t.Errorf("got %+v", c)
	}
}
