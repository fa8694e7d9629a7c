package output_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
)

const (
	mega  = 1 << 20
	small = 64 << 10
)

// filled returns n bytes, which depend on n.
func filled(n int) []byte {
	return bytes.Repeat([]byte{1 + byte(n), byte(n >> 20), byte(n >> 10)}, n/3+1)[:n]
}

// attach adds an attachment of n bytes.
func attach(l output.Log, n int) int { return l.Attach(filled(n)) }

// finished returns n finished logs with an attachment of size bytes each.
func finished(m output.TestStore, n, size int) (all []output.TestLog) {
	for range n {
		l := m.New()
		attach(l, size)
		l.Finish()
		all = append(all, l)
	}
	return all
}

// wantAttachment fails the test unless attachment n has that many bytes, the right ones.
func wantAttachment(t *testing.T, what string, l output.Log, n, size int) {
	t.Helper()
	if got, err := l.Attachment(n); err != nil || !bytes.Equal(got, filled(size)) {
		t.Errorf("%s: attachment %d has %d bytes, want %d: %v", what, n, len(got), size, err)
	}
}

// wantGone fails the test unless attachment n can't be read because of why.
func wantGone(t *testing.T, what string, l output.Log, n int, why error) {
	t.Helper()
	if got, err := l.Attachment(n); !errors.Is(err, why) {
		t.Errorf("%s: attachment %d has %d bytes, error %v; want %v", what, n, len(got), err, why)
	}
}

// Attachments take space like output: those of logs that were finished first make room, and those
// of an unfinished log are not dropped.
func TestAttachmentsShareTheDisk(t *testing.T) {
	m := sharing(t, 4*mega, 0)
	m.FillMemory()
	first, second, running := m.New(), m.New(), m.New()
	for _, l := range []output.TestLog{first, second, running} {
		attach(l, mega)
	}
	segments(first, 3)
	if u := m.Usage(); u.Bytes != 3*mega+3*output.SegmentSize+page {
		t.Errorf("usage %+v", u)
	}
	first.Finish()
	second.Finish()
	attach(running, mega+1)
	if u := m.Usage(); u.Bytes > 4*mega {
		t.Errorf("usage %+v", u)
	}
	if st := first.Stat(); st.Loss.Limit != 3*output.SegmentSize-output.Shortest {
		t.Errorf("the output of the first log: %+v", st)
	}
	wantGone(t, "the first log", first, 0, output.ErrLimit)
	wantAttachment(t, "the second log", second, 0, mega)
	wantAttachment(t, "the unfinished log", running, 0, mega)
	wantAttachment(t, "the unfinished log", running, 1, mega+1)

	attach(running, 2*mega) // the second log makes room for a part of it, which is not enough
	wantGone(t, "the second log", second, 0, output.ErrLimit)
	wantGone(t, "without room", running, 2, output.ErrLimit)
	wantAttachment(t, "without room", running, 1, mega+1)
	if u := m.Usage(); u.Failure != output.ErrLimit || u.Bytes > 4*mega {
		t.Errorf("without room: usage %+v", u)
	}
	attach(running, mega) // has room that the one that did not fit had not
	wantAttachment(t, "after one that did not fit", running, 3, mega)
	wantAttachment(t, "before one that did not fit", running, 0, mega)

	first.Discard()
	second.Discard()
	running.Discard()
	if u := m.Usage(); u.Bytes != 0 {
		t.Errorf("after all logs were discarded: usage %+v", u)
	}
	attach(running, mega)
	if u := m.Usage(); u.Bytes != 0 {
		t.Errorf("a log that was discarded takes space: %+v", u)
	}
}

// What a full disk refuses is kept in memory, within the limit of all attachments there.
func TestFullDiskKeepsAttachmentsInMemory(t *testing.T) {
	racetest.Skip(t)
	m := sharing(t, 0, 0)
	d := withRoom(m, 0)
	l := m.New()
	for range 65 {
		attach(l, mega)
	}
	for i := range 64 {
		wantAttachment(t, "full", l, i, mega)
	}
	wantGone(t, "full", l, 64, syscall.ENOSPC)
	if l.Detach(64); m.Usage().Bytes != 0 {
		t.Errorf("without files: usage %+v", m.Usage())
	}
	d.setRoom(1 << 40)
	attach(l, mega)
	attach(l, small) // memory is full, the disk is not
	wantAttachment(t, "with room again", l, 65, mega)
	wantAttachment(t, "a small one without room in memory", l, 66, small)
	l.Discard()
	other := m.New()
	d.setRoom(0)
	attach(other, mega)
	wantAttachment(t, "after the others were dropped", other, 0, mega)
}

// What was detached leaves its place, in memory and on disk, to later attachments of its log.
func TestDetachedAttachmentsLeaveTheirPlace(t *testing.T) {
	racetest.Skip(t)
	m := sharing(t, 3*mega, 0)
	l := m.New()
	kept := attach(l, mega)
	for range 20 {
		n := attach(l, 3*mega/2)
		wantAttachment(t, "on disk", l, n, 3*mega/2)
		wantAttachment(t, "on disk, small", l, attach(l, small), small)
		for at := n; at < n+2; at++ {
			l.Detach(at)
			l.Detach(at)
			if got, err := l.Attachment(at); err == nil {
				t.Fatalf("detached attachment %d has %d bytes", at, len(got))
			}
		}
	}
	wantAttachment(t, "beside detached ones", l, kept, mega)
	if u := m.Usage(); u.Failure != nil || u.Bytes > 3*mega {
		t.Errorf("usage %+v", u)
	}
	bare := output.NewTestStore(output.Config{}).New()
	for range 2 {
		n := attach(bare, 40*mega)
		bare.Finish()
		wantAttachment(t, "in memory", bare, n, 40*mega)
		bare.Detach(n)
	}
	attach(bare, mega)
	bare.Discard()
	bare.Detach(2)
}

// Each attachment is a file, also an empty one, so that a later run has it.
func TestAttachmentsAreFiles(t *testing.T) {
	m := sharing(t, 0, 0)
	l := m.New()
	attach(l, small+1)
	l.Attach(nil)
	attach(l, 10)
	l.Detach(2)
	if u := m.Usage(); u.Bytes != small+page {
		t.Errorf("usage %+v", u)
	}
	wantAttachment(t, "an empty one", l, 1, 0)
	l.Finish()
	if _, short := l.Short(); !short {
		t.Error("a log without output is not short")
	}
	past := output.OpenPast(output.FilesOf(filepath.Join(m.Usage().Dir, "log1")), l.Stat(), nil)
	wantAttachment(t, "in a later run", past, 0, small+1)
	wantAttachment(t, "in a later run", past, 1, 0)
	for _, n := range []int{2, 3, -1} {
		if got, err := past.Attachment(n); err == nil {
			t.Errorf("attachment %d in a later run: %d bytes", n, len(got))
		}
	}
	past.Discard()
	wantAttachment(t, "after a later run", l, 0, small+1)
}

func TestAttachmentsWithoutDisk(t *testing.T) {
	bare := output.NewTestStore(output.Config{}).New()
	attach(bare, mega)
	wantAttachment(t, "without a disk", bare, 0, mega)
	bare.Attach(nil)
	wantAttachment(t, "an empty one", bare, 1, 0)
	bare.Discard()
	if _, err := bare.Attachment(1); err == nil {
		t.Error("an empty attachment of a log that was discarded can be read")
	}
}

// The limit of one log is not that of its attachments.
func TestAttachmentsOfShortLogsAreOnDisk(t *testing.T) {
	m := sharing(t, 0, 4096)
	l := m.New()
	for range 70 {
		attach(l, mega)
	}
	wantAttachment(t, "a short log", l, 0, mega)
	wantAttachment(t, "a short log", l, 69, mega)
	segments(l, 100)
	if st := l.Stat(); st.Loss.Cap == 0 || st.Dropped != st.Loss.Cap {
		t.Errorf("the log: %+v", st)
	}
	if u := m.Usage(); u.Bytes > 70*mega+4*page {
		t.Errorf("usage %+v", u)
	}
}

// Attachments that are added, read, evicted and discarded at the same time are never those of
// another log.
func TestAttachmentsNeverShowEachOther(t *testing.T) {
	m := sharing(t, 3*mega, 512<<10)
	m.FillMemory()
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for round := range 4 {
				l := m.New()
				const most = 5
				var reader sync.WaitGroup
				added, stop := make(chan int, most), make(chan struct{}) // room for all numbers
				reader.Go(func() {
					for n := range added {
						for more := true; more; {
							select {
							case <-stop:
								more = false
							default:
								more = len(added) == 0
							}
							got, err := l.Attachment(n)
							if want := fmt.Sprintf("%d of %d in %d", n, w, round); err == nil && !bytes.Equal(got, bytes.Repeat([]byte(want), 10_000)) {
								t.Errorf("attachment %q is %.20q", want, got)
							}
						}
					}
				})
				for n := range most {
					added <- l.Attach(bytes.Repeat(fmt.Appendf(nil, "%d of %d in %d", n, w, round), 10_000))
					if n == 2 {
						l.Finish()
					}
				}
				if round%2 == 0 {
					l.Discard()
				}
				close(stop)
				close(added)
				reader.Wait()
			}
		})
	}
	writers.Wait()
	if u := m.Usage(); u.Bytes > 3*mega {
		t.Errorf("usage %+v", u)
	}
}

// If neither disk nor memory has room, the logs that were finished first lose their attachments.
func TestFinishedLogsMakeRoomInMemory(t *testing.T) {
	racetest.Skip(t)
	for name, test := range map[string]struct {
		why   error
		limit int64
	}{
		"the limit": {output.ErrLimit, small},
		"full disk": {syscall.ENOSPC, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := sharing(t, test.limit, 0)
			withRoom(m, 0)
			running, large, mixed := m.New(), m.New(), m.New()
			attach(running, mega)
			attach(mixed, small)
			attach(mixed, mega-small)
			for range 2 {
				attach(large, mega)
			}
			mixed.Finish()
			large.Finish()
			var last output.TestLog
			for range 60 + 2 { // the last two don't fit
				last = m.New()
				attach(last, mega)
				last.Finish()
			}
			for i := range 2 {
				wantGone(t, "the log that was finished first", mixed, i, test.why)
				wantGone(t, "the log that was finished next", large, i, test.why)
			}
			wantAttachment(t, "the unfinished log", running, 0, mega)
			wantAttachment(t, "the newest log", last, 0, mega)
			attach(large, mega) // it has room: two were evicted with the log at once
			wantAttachment(t, "late in a log that lost all", large, 2, mega)
			for range 64 {
				attach(running, mega)
			}
			wantGone(t, "late, without room for more", large, 2, test.why)
			wantAttachment(t, "as much as there is room for", running, 63, mega)
			wantGone(t, "without room", running, 64, test.why)
			running.Discard()
			attach(last, mega)
			wantAttachment(t, "after the others were dropped", last, 1, mega)
		})
	}
}

// No more logs lose their attachments in memory than an attachment needs, and none twice.
func TestFinishedLogsLoseNoMoreThanNeeded(t *testing.T) {
	m := sharing(t, small, 0) // nothing but small ones fits on disk
	all := finished(m, 64, mega)
	running := m.New()
	attach(running, mega)
	wantGone(t, "the first log", all[0], 0, output.ErrLimit)
	wantAttachment(t, "the second log", all[1], 0, mega)
	attach(running, mega)
	wantGone(t, "the second log", all[1], 0, output.ErrLimit)
	wantAttachment(t, "the third log", all[2], 0, mega)
	running.Discard() // there is room for two
	attach(all[0], mega)
	attach(running, mega) // dropped at once
	last := m.New()
	attach(last, mega)
	wantAttachment(t, "late in a log that lost all", all[0], 1, mega)
	wantAttachment(t, "the third log", all[2], 0, mega)
	attach(last, mega)
	wantGone(t, "the third log", all[2], 0, output.ErrLimit)
	wantAttachment(t, "late in a log that lost all", all[0], 1, mega)
}

// A finished log that is discarded leaves the others to make room, and keeps nothing that comes
// later.
func TestDiscardedLogLeavesTheOthers(t *testing.T) {
	m := sharing(t, small, 0)
	all := finished(m, 64, mega)
	all[10].Discard()
	running := m.New()
	attach(running, mega) // takes the room of the one that was discarded
	wantAttachment(t, "the first log", all[0], 0, mega)
	attach(running, mega)
	wantGone(t, "the first log", all[0], 0, output.ErrLimit)
	wantAttachment(t, "of the unfinished log", running, 1, mega)
	n := attach(all[10], small)
	if got, err := all[10].Attachment(n); err == nil {
		t.Errorf("an attachment of a log that was discarded: %d bytes", len(got))
	}
}

// The space of what was evicted serves attachments of any size.
func TestEvictedSpaceIsForAnySize(t *testing.T) {
	m := sharing(t, mega, 0)
	m.FillMemory()
	for i := range 60 {
		l := m.New()
		size := 300_000 + i%3*100_000
		attach(l, size)
		wantAttachment(t, fmt.Sprint("log ", i), l, 0, size)
		l.Finish()
	}
	if u := m.Usage(); u.Failure != nil || u.Bytes > mega || u.Bytes < mega/2 {
		t.Errorf("usage %+v", u)
	}
}

// A disk without room is reported only while no finished log could make room.
func TestFailureEndsWhenThereIsRoomAgain(t *testing.T) {
	m := sharing(t, 2*mega, 0)
	first, second := m.New(), m.New()
	attach(first, mega)
	attach(second, mega)
	for what, l := range map[string]output.TestLog{"finished": first, "discarded": second} {
		attach(l, 3*mega)
		if u := m.Usage(); u.Failure != output.ErrLimit {
			t.Errorf("without room: usage %+v", u)
		}
		if what == "finished" {
			l.Finish()
		} else {
			l.Discard()
		}
		if u := m.Usage(); u.Failure != nil {
			t.Errorf("after a log was %s: usage %+v", what, u)
		}
	}
}
