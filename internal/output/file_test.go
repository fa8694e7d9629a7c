package output

import (
	"bytes"
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
)

// sharing returns a store on a real disk that keeps limit bytes of all logs, and most of one.
func sharing(t *testing.T, limit, most int64) *store {
	dir := t.TempDir()
	return newStore(Config{Cap: most, Disk: limit, Dir: func() (string, error) { return dir, nil }})
}

// newLogOf returns a new log of the store.
func newLogOf(s *store) *segmentLog { return s.NewLog("").(*segmentLog) }

// segments writes n segments of what belongs at their places, and a byte, so that all of them are
// sealed.
func segments(l *segmentLog, n int) {
	b := make([]byte, l.size)
	for range n {
		pattern(b, l.Stat().End)
		l.Write(Stdout, b)
	}
	pattern(b[:1], l.Stat().End)
	l.Write(Stdout, b[:1])
	flushed(l)
}

// whole reports what is readable of a log, all of which must be what was written.
func whole(t *testing.T, l *segmentLog) (got int64) {
	t.Helper()
	want := make([]byte, 64<<10)
	for cursor, end := int64(0), l.Stat().End; cursor < end; {
		c := l.Read(cursor, len(want))
		at := c.From
		for _, s := range c.Spans {
			pattern(want[:len(s.Data)], at)
			if !bytes.Equal(want[:len(s.Data)], s.Data) {
				t.Fatalf("at %d stands what was not written there", at)
			}
			at += int64(len(s.Data))
		}
		got += at - c.From
		cursor = c.Next
	}
	return got
}

// On disk the logs of jobs that have ended give way, the first to end first, and what gave way is
// told to the byte.
func TestLimitOfAllOutput(t *testing.T) {
	m := sharing(t, 12*segmentSize, 0)
	logs := make([]*segmentLog, 4)
	for i := range logs {
		logs[i] = newLogOf(m)
	}
	segments(logs[0], 4)
	segments(logs[1], 4)
	segments(logs[2], 4)
	logs[1].Finish()
	logs[0].Finish()
	segments(logs[3], 2)
	gone := Stat{End: 4*segmentSize + 1, Final: 4*segmentSize + 1, Dropped: 4 * segmentSize, Gaps: []Range{{0, 4 * segmentSize}}, Loss: Loss{State: 4 * segmentSize}}
	if d := cmp.Diff(gone, logs[1].Stat(), withoutTime); d != "" {
		t.Errorf("the first to end: %s", d)
	}
	if got := whole(t, logs[1]); got != 1 {
		t.Errorf("of the first to end %d bytes are left, want the newest", got)
	}
	for i, want := range map[int]int64{0: 4*segmentSize + 1, 2: 4*segmentSize + 1, 3: 2*segmentSize + 1} {
		if got := whole(t, logs[i]); got != want {
			t.Errorf("of log %d are left %d bytes, want %d", i, got, want)
		}
	}
	if u := m.Usage(); u.Bytes != 12*segmentSize || u.Limit != 12*segmentSize || u.Logs != 3 || u.Failure != nil || u.Dir == "" {
		t.Errorf("usage: %+v", u)
	}

	// A job that runs loses nothing to another: what does not fit any more is kept in memory, head
	// and tail.
	segments(logs[3], 10)
	if st := logs[0].Stat(); st.Loss.State != 4*segmentSize {
		t.Errorf("the other that has ended: %+v", st)
	}
	if got := whole(t, logs[2]); got != 4*segmentSize+1 {
		t.Errorf("of a job that runs are left %d bytes", got)
	}
	st := logs[3].Stat()
	if st.Loss.State == 0 || st.Loss.State != st.Dropped || whole(t, logs[3]) != st.End-st.Dropped {
		t.Errorf("of one that runs and has no more room: %+v", st)
	}
	if u := m.Usage(); !errors.Is(u.Failure, ErrLimit) || u.Bytes > u.Limit {
		t.Errorf("usage: %+v", u)
	}

	// Room for it again: what it holds in memory goes to disk.
	logs[2].Finish()
	dropped := st.Dropped
	segments(logs[3], 1)
	if st := logs[3].Stat(); st.Dropped != dropped || len(logs[3].sealed.held) != 0 {
		t.Errorf("with room again: %+v, %d segments held", st, len(logs[3].sealed.held))
	}
	if u := m.Usage(); u.Failure != nil || u.Logs != 1 {
		t.Errorf("usage: %+v", u)
	}
	if got := whole(t, logs[3]); got != logs[3].Stat().End-dropped {
		t.Errorf("%d bytes are left", got)
	}

	// Late output of one that gave way is kept like any other.
	at := logs[1].Stat().End
	b := make([]byte, 2*segmentSize)
	pattern(b, at)
	logs[1].Write(Stdout, b)
	flushed(logs[1])
	if got := whole(t, logs[1]); got != int64(len(b))+1 {
		t.Errorf("%d bytes of late output are left", got)
	}
}

// What a forgotten job had on disk is given back to it.
func TestForgottenLogGivesBackDisk(t *testing.T) {
	m := sharing(t, 0, 0)
	blocks := func() int64 {
		info, err := m.file.file.(namelessFile).Stat()
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	a, b := newLogOf(m), newLogOf(m)
	for range 4 {
		segments(a, 1)
		segments(b, 1)
	}
	if got := blocks(); got < 8*segmentSize || m.Usage().Bytes != 8*segmentSize {
		t.Errorf("%d bytes on disk, told %+v", got, m.Usage())
	}
	a.Discard()
	if err := m.file.file.Punch(0, 1); err != nil {
		t.Skipf("this file system gives nothing back before the end: %v", err)
	}
	if got := blocks(); got > 4*segmentSize+64<<10 || m.Usage().Bytes != 4*segmentSize || m.Usage().Logs != 1 {
		t.Errorf("%d bytes on disk, told %+v", got, m.Usage())
	}
	segments(newLogOf(m), 4)
	if got := whole(t, b); got != b.Stat().End {
		t.Errorf("%d bytes of %d are left", got, b.Stat().End)
	}
	if n := len(m.file.blocks); n != 8 {
		t.Errorf("%d slots: those given back are not used again", n)
	}
}

// However many logs have spilled, it takes one descriptor; and one that spills when there are no
// more keeps what it has, and says why.
func TestSpillTakesOneDescriptor(t *testing.T) {
	m := sharing(t, 0, 512<<10)
	logs := make([]*segmentLog, 100)
	for i := range logs {
		logs[i] = newLogOf(m)
		segments(logs[i], 1)
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(fds) == 0 {
		t.Skip("here nobody tells what is open", err)
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
		if got := whole(t, l); got != int64(l.size)+1 {
			t.Fatalf("%d bytes are left", got)
		}
	}
}

// The middle of a log goes when its cap is reached: exactly, whatever the cap.
func TestCapAtOddSizes(t *testing.T) {
	for _, limit := range []int64{4096, 4097, 5003, 65_537, segmentSize, segmentSize + 1, 300_001, 1<<20 - 1, 16<<18 + 1, 5_000_011} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			l, _ := onDisk(t, limit)
			size := int64(l.size)
			b := make([]byte, 777*(1+limit/100_000))
			for l.Stat().End < 3*limit {
				pattern(b, l.Stat().End)
				l.Write(Stdout, b)
			}
			st := l.Stat()
			kept := st.End - st.Dropped
			if got := whole(t, l); got != kept {
				t.Errorf("%d bytes can be read, told %d", got, kept)
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

// A fullDisk is a spill file that takes so many bytes and no more.
type fullDisk struct {
	namelessFile
	mu   sync.Mutex
	room int64
}

func (d *fullDisk) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room < int64(len(p)) {
		return 0, &fs.PathError{Op: "write", Path: d.Name(), Err: syscall.ENOSPC}
	}
	d.room -= int64(len(p))
	return d.namelessFile.WriteAt(p, off)
}

func (d *fullDisk) setRoom(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = n
}

// On a full disk a job goes on, with its beginning and its newest output in memory; when there is
// room again nothing more is lost.
func TestFullDiskAndRoomAgain(t *testing.T) {
	m := sharing(t, 0, 0)
	real := m.file.open
	d := &fullDisk{room: 2 * segmentSize}
	m.file.open = func() (rawFile, error) {
		f, err := real()
		if err == nil {
			d.namelessFile = f.(namelessFile)
		}
		return d, err
	}
	l := newLogOf(m)
	segments(l, 10)
	st := l.Stat()
	if u := m.Usage(); !errors.Is(u.Failure, syscall.ENOSPC) {
		t.Errorf("usage: %+v", u)
	}
	if st.Loss != (Loss{Disk: st.Dropped}) || st.Dropped != 5*segmentSize || whole(t, l) != st.End-st.Dropped {
		t.Errorf("full: %+v", st)
	}
	if !cmp.Equal(st.Gaps, []Range{{2 * segmentSize, 7 * segmentSize}}) {
		t.Errorf("gone is %v, want what is neither the beginning nor the newest", st.Gaps)
	}
	d.setRoom(1 << 40)
	segments(l, 10)
	if u := m.Usage(); u.Failure != nil {
		t.Errorf("with room again: %+v", u)
	}
	if after := l.Stat(); after.Dropped != st.Dropped || whole(t, l) != after.End-st.Dropped {
		t.Errorf("with room again: %+v", after)
	}
	if n := len(l.sealed.held); n != 0 {
		t.Errorf("%d segments are still in memory", n)
	}
}

// Logs that are written, ended, forgotten and read all at once never show one another's output, and
// stay within the limit.
func TestSpillIsShared(t *testing.T) {
	const limit = 20 * (32 << 10)
	m := sharing(t, limit, 512<<10) // in segments of 32 KiB
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for round := range 6 {
				l := newLogOf(m)
				var reader sync.WaitGroup
				stop := make(chan struct{})
				reader.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							whole(t, l)
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
				got := whole(t, l)
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
