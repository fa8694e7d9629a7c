package outputtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/racetest"
)

// Test checks what every [output.Log] must do. newStore returns a new store whose logs keep at most
// limit bytes each, or somewhat more; nothing else takes bytes from them.
func Test(t *testing.T, newStore func(t *testing.T, limit int64) output.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, newStore func(limit int64) output.Store)
	}{
		{"agrees with a log that keeps everything", agrees},
		{"keeps first and last bytes beyond its limit", keepsBothEnds},
		{"shows readers what is written meanwhile", showsReaders},
		{"wakes waiting readers", wakesReaders},
		{"keeps spans apart", keepsSpansApart},
		{"copies what is written", copiesWrites},
		{"takes late output", takesLateOutput},
		{"leaves a gap when discarded", leavesGap},
		{"says where it writes", saysWhere},
		{"keeps attachments in one piece", keepsAttachments},
		{"returns what is short", returnsShort},
		{"skips what was dropped elsewhere", skips},
		{"skips any number of bytes at once", skipsMany},
		{"bounds its gaps", boundsGaps},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, func(limit int64) output.Store { return newStore(t, limit) })
		})
	}
}

// newLog returns a log that is discarded with the test.
func newLog(t *testing.T, s output.Store) output.Log {
	l := s.NewLog("01M7YD88GSM7100P84CS84HE4D")
	t.Cleanup(l.Discard)
	return l
}

// agrees writes and reads at random. The log may drop bytes when it has reached its limit, and no
// sooner.
func agrees(t *testing.T, newStore func(int64) output.Store) {
	racetest.Skip(t)
	const limit = 1 << 20
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 4 {
		l, m := newLog(t, newStore(limit)), new(Model)
		for step := range 150 {
			switch choice := random.IntN(12); {
			case choice == 0 && step > 100:
				l.Finish()
				m.Finish()
			case choice == 0 && step%2 == 0:
				l.Flush()
			case choice < 3:
				m.CheckRead(t, l, random.Int64N(m.End()+100)-50, random.IntN(100_000))
			default:
				b := make([]byte, random.IntN(1+2_000*(1+10*round)))
				Pattern(b, m.End())
				s := output.Stream(random.IntN(5))
				l.Write(s, b)
				m.Write(s, b)
			}
			if step%30 == 0 {
				m.Compare(t, l, 1+random.IntN(200_000))
			}
		}
		m.Compare(t, l, 64<<10)
		if st := l.Stat(); st.End <= limit && st.Dropped > 0 {
			t.Errorf("%d bytes are gone of %d: %+v", st.Dropped, st.End, st.Loss)
		}
	}
}

// Pattern fills b with a pattern that depends on the cursor, so that a byte at the wrong place is
// noticed.
func Pattern(b []byte, cursor int64) {
	for i := range b {
		p := cursor + int64(i)
		b[i] = byte(p ^ p>>8 ^ p>>16)
	}
}

// CheckPattern reads the whole log, which must hold a Pattern, and returns how many bytes it got.
func CheckPattern(t testing.TB, l output.Reader) (got int64) {
	t.Helper()
	want := make([]byte, 64<<10)
	for cursor, end := int64(0), l.Stat().End; cursor < end; {
		c := l.Read(cursor, len(want))
		at := c.From
		for _, s := range c.Spans {
			Pattern(want[:len(s.Data)], at)
			if !bytes.Equal(want[:len(s.Data)], s.Data) {
				t.Fatalf("at %d: bytes that were not written there", at)
			}
			at += int64(len(s.Data))
		}
		got += at - c.From
		cursor = c.Next
	}
	return got
}

func keepsBothEnds(t *testing.T, newStore func(int64) output.Store) {
	racetest.Skip(t)
	const limit, written = 1 << 20, 4 << 20
	l := newLog(t, newStore(limit))
	b := make([]byte, 10_000)
	for cursor := int64(0); cursor < written; cursor += int64(len(b)) {
		b = b[:min(int64(len(b)), written-cursor)]
		Pattern(b, cursor)
		l.Write(output.TTY, b)
	}
	l.Finish()
	st := l.Stat()
	if kept := CheckPattern(t, l); kept != written-st.Dropped || kept < limit*3/4 || kept > limit*3/2 {
		t.Errorf("%d bytes can be read, %d are said to be gone, of %d with a limit of %d", kept, st.Dropped, written, limit)
	}
	if st.Loss != (output.Loss{Cap: st.Dropped}) {
		t.Errorf("by cause: %+v", st.Loss)
	}
	if len(st.Gaps) != 1 || st.Gaps[0].From < limit/4 || written-st.Gaps[0].To < limit/4 {
		t.Errorf("gaps %v, want one in the middle of %d", st.Gaps, written)
	}
}

// showsReaders writes at full speed, far beyond the limit. Each reader gets the bytes written at
// its cursor, or the number of bytes it missed.
func showsReaders(t *testing.T, newStore func(int64) output.Store) {
	const limit, total = 512 << 10, 4 << 20
	l := newLog(t, newStore(limit))
	streamAt := func(cursor int64) output.Stream { return output.Stream(cursor / 100 % 3) }
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() { // ends with the log
			var cursor, dropped, got int64
			want := make([]byte, 8<<10)
			for cursor < total {
				c := l.Read(cursor, 1000+r*3000)
				at := c.From
				for _, s := range c.Spans {
					Pattern(want[:len(s.Data)], at)
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
	for cursor := int64(0); cursor < total; cursor += int64(len(b)) {
		b = b[:min(100, total-cursor)]
		Pattern(b, cursor)
		l.Write(streamAt(cursor), b)
	}
	l.Finish()
	readers.Wait()
}

func wakesReaders(t *testing.T, newStore func(int64) output.Store) {
	synctest.Test(t, func(t *testing.T) {
		l := newStore(1 << 20).NewLog("a")
		start := time.Now()
		go func() { // ends within the test
			time.Sleep(time.Minute)
			l.Write(output.TTY, []byte("hi"))
			time.Sleep(time.Minute)
			l.Write(output.TTY, nil) // nothing to read: no reader wakes
			time.Sleep(time.Minute)
			l.Finish()
		}()
		if !l.Stat().Last.IsZero() {
			t.Errorf("last bytes came at %v, before any did", l.Stat().Last)
		}
		more := l.More(0)
		if err := l.Wait(t.Context(), 0); err != nil || time.Since(start) != time.Minute {
			t.Errorf("for output: %v after %v", err, time.Since(start))
		}
		closed := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		if !closed(more) || !closed(l.More(1)) || closed(l.More(2)) {
			t.Errorf("at the first output: %v, %v, %v", closed(more), closed(l.More(1)), closed(l.More(2)))
		}
		if err := l.Wait(t.Context(), 1); err != nil || time.Since(start) != time.Minute {
			t.Errorf("for output that is there: %v after %v", err, time.Since(start))
		}
		stopped := errors.New("stopped waiting")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stopped)
		defer cancel()
		if err := l.Wait(ctx, 2); err != stopped {
			t.Errorf("with a context: %v", err)
		}
		if err := l.Wait(t.Context(), 2); err != nil || time.Since(start) != 3*time.Minute {
			t.Errorf("for the end: %v after %v", err, time.Since(start))
		}
		if last := l.Stat().Last.Sub(start); last != time.Minute {
			t.Errorf("last bytes came after %v", last)
		}
		other := newStore(1 << 20).NewLog("b")
		go func() { // ends within the test
			time.Sleep(time.Minute)
			other.Discard()
		}()
		if err := other.Wait(t.Context(), 0); err != nil || time.Since(start) != 4*time.Minute {
			t.Errorf("for a log that is discarded: %v after %v", err, time.Since(start))
		}
		l.Discard()
	})
}

// keepsSpansApart: to append to one span writes into no other.
func keepsSpansApart(t *testing.T, newStore func(int64) output.Store) {
	l := newLog(t, newStore(1<<20))
	l.Write(output.Stdout, []byte("one"))
	l.Write(output.Stderr, []byte("two"))
	c := l.Read(0, 100)
	_ = append(c.Spans[0].Data, "3"...)
	want := []output.Span{{Stream: output.Stdout, Data: []byte("one")}, {Stream: output.Stderr, Data: []byte("two")}}
	if d := cmp.Diff(want, c.Spans); d != "" {
		t.Error(d)
	}
}

func copiesWrites(t *testing.T, newStore func(int64) output.Store) {
	l := newLog(t, newStore(1<<20))
	b := []byte("abc")
	l.Write(output.Stdout, b)
	copy(b, "xyz")
	if got := string(output.Tail(l, 10)); got != "abc" {
		t.Errorf("got %q", got)
	}
}

func takesLateOutput(t *testing.T, newStore func(int64) output.Store) {
	l, m := newLog(t, newStore(1<<20)), new(Model)
	for i := range 3 {
		for range 100 {
			b := fmt.Appendf(nil, "%d out", i)
			l.Write(output.Stdout, b)
			m.Write(output.Stdout, b)
			l.Write(output.Stderr, b)
			m.Write(output.Stderr, b)
		}
		m.Compare(t, l, 1000)
		l.Finish()
		m.Finish()
	}
}

func leavesGap(t *testing.T, newStore func(int64) output.Store) {
	l := newLog(t, newStore(1<<20))
	b := make([]byte, 600<<10)
	l.Write(output.Stdout, b)
	l.Discard()
	l.Discard()
	l.Write(output.Stdout, []byte("ignored"))
	st := l.Stat()
	if st.End != int64(len(b)) || st.Dropped == 0 || st.Loss != (output.Loss{}) {
		t.Errorf("%+v", st)
	}
	if c := l.Read(0, len(b)); c.Dropped == 0 || c.Next-c.From != st.End-st.Dropped {
		t.Errorf("read %d to %d, dropped %d", c.From, c.Next, c.Dropped)
	}
}

// saysWhere: a write returns the cursor of its first byte, also while others write.
func saysWhere(t *testing.T, newStore func(int64) output.Store) {
	l := newLog(t, newStore(1<<20))
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			line := fmt.Appendf(nil, "line of %d\n", w)
			for range 100 {
				at := l.Write(output.Display, line)
				if got := l.Read(at, len(line)); len(got.Spans) != 1 || !bytes.Equal(got.Spans[0].Data, line) {
					t.Errorf("at %d: %+v, want %q", at, got, line)
				}
			}
		})
	}
	writers.Wait()
	end := l.Stat().End
	if at := l.Write(output.Stdout, nil); at != end || l.Stat().End != end {
		t.Errorf("an empty write: at %d of %d", at, end)
	}
}

// keepsAttachments: they have numbers of their own, add nothing to the output, do not count for its
// limit and are dropped with it.
func keepsAttachments(t *testing.T, newStore func(int64) output.Store) {
	racetest.Skip(t)
	l := newLog(t, newStore(1<<20))
	l.Write(output.Stdout, []byte("out"))
	sizes := []int{0, 1, 25_000, 300_000, 3 << 20, 256 << 10}
	want := func(n int) []byte {
		b := make([]byte, sizes[n])
		Pattern(b, int64(n)*1000)
		return b
	}
	for i := range sizes {
		if n := l.Attach(want(i)); n != i {
			t.Errorf("attachment %d has the number %d", i, n)
		}
	}
	l.Finish()
	sizes = append(sizes, 70_000)
	l.Attach(want(len(sizes) - 1)) // late
	for i := range sizes {
		if got, err := l.Attachment(i); err != nil || !bytes.Equal(got, want(i)) {
			t.Errorf("attachment %d: %d bytes, %v; want %d", i, len(got), err, sizes[i])
		}
	}
	if st := l.Stat(); st.End != 3 || st.Dropped != 0 {
		t.Errorf("the output: %+v", st)
	}
	l.Detach(1)
	if got, err := l.Attachment(1); err == nil {
		t.Errorf("a detached attachment: %d bytes", len(got))
	}
	l.Discard()
	l.Attach(want(2))
	for i := range len(sizes) + 1 {
		if got, err := l.Attachment(i); err == nil {
			t.Errorf("attachment %d of a log that was discarded: %d bytes", i, len(got))
		}
	}
}

// returnsShort: a log that has ended can say that its output is short. Then it returns all of it.
func returnsShort(t *testing.T, newStore func(int64) output.Store) {
	for _, n := range []int{0, 1, 100, 1 << 20} {
		l, m := newLog(t, newStore(1<<20)), new(Model)
		for i := range 2 {
			b := make([]byte, n)
			Pattern(b, m.End())
			l.Write(output.Stream(i), b)
			m.Write(output.Stream(i), b)
		}
		if _, ok := l.Short(); ok {
			t.Errorf("%d bytes are short before the end", m.End())
		}
		l.Finish()
		spans, ok := l.Short()
		if ok {
			m.checkSpans(t, output.Chunk{Spans: spans, Next: m.End()})
		}
		if n == 1<<20 && ok {
			t.Errorf("%d bytes are short", m.End())
		}
	}
	l := newLog(t, newStore(1<<20))
	l.Write(output.Stdout, []byte("flushed"))
	l.Flush()
	l.Finish()
	if got := string(output.Tail(l, 100)); got != "flushed" {
		t.Errorf("got %q", got)
	}
}

// skips: skipped bytes are a gap, whatever stands around them, and all others stay. Late ones, too.
func skips(t *testing.T, newStore func(int64) output.Store) {
	for _, flush := range []bool{false, true} {
		l, m := newLog(t, newStore(1<<20)), new(Model)
		for i := range 9 {
			for _, n := range []int{0, 1, 100, 20_000} {
				b := make([]byte, n)
				Pattern(b, m.End())
				l.Write(output.Stream(i%3), b)
				m.Write(output.Stream(i%3), b)
				l.Skip(m.End()+int64(i), output.Loss{Cap: int64(i)})
				m.Skip(i)
				l.Skip(m.End(), output.Loss{Cap: 1})
				l.Skip(m.End()-1, output.Loss{Cap: 1})
				l.Skip(-1, output.Loss{Cap: 1})
				if flush {
					l.Flush()
				}
				m.Compare(t, l, 5000)
			}
			if i == 5 {
				l.Finish()
				m.Finish()
				m.Compare(t, l, 5000)
				if spans, ok := l.Short(); ok {
					t.Errorf("a log with a gap is short: %v", spans)
				}
			}
		}
	}
	t.Run("by cause", func(t *testing.T) {
		l := newLog(t, newStore(1<<20))
		l.Skip(10, output.Loss{Cap: 5, Disk: 3, Limit: 2})
		l.Skip(20, output.Loss{Cap: 5, Disk: 30, Limit: 2})
		l.Skip(30, output.Loss{Cap: -5, Limit: 2})
		st := l.Stat()
		if want := (output.Loss{Cap: 10, Disk: 8, Limit: 4}); st.Loss != want || st.Dropped != 30 || st.Last.IsZero() {
			t.Errorf("%+v, want %+v", st, want)
		}
		for s := output.Stdout; s <= output.Display; s++ {
			if !l.Streams(3, 4).Has(s) {
				t.Errorf("a byte that was skipped can't have been of %v", s)
			}
		}
		l.Discard()
		l.Skip(40, output.Loss{})
		if st := l.Stat(); st.End != 30 {
			t.Errorf("after the log was discarded: %+v", st)
		}
	})
	t.Run("wakes readers", func(t *testing.T) {
		l := newLog(t, newStore(1<<20))
		more := l.More(0)
		l.Skip(10, output.Loss{Cap: 10})
		select {
		case <-more:
		default:
			t.Error("the reader that waits for more is not woken")
		}
	})
}

// skipsMany skips so many bytes that none of the store's work may grow with them.
func skipsMany(t *testing.T, newStore func(int64) output.Store) {
	for _, to := range []int64{1 << 33, 1 << 42, 1<<47 - 2, 1 << 47, 1 << 50, 1 << 62} {
		s := newStore(1 << 20)
		l := newLog(t, s)
		l.Write(output.Stdout, []byte("begin"))
		l.Skip(to, output.Loss{Cap: to - 5})
		for i := range int64(20) {
			b := make([]byte, 100<<10)
			Pattern(b, to+i*100<<10)
			l.Write(output.Stderr, b)
		}
		l.Write(output.Stdout, []byte("end"))
		end := to + 20*100<<10 + 3
		l.Finish()
		if st := l.Stat(); st.End != end || st.Final != end || st.Loss != (output.Loss{Cap: st.Dropped}) || st.Dropped < to-5 || end-st.Dropped < 200<<10 {
			t.Errorf("%+v", st)
		}
		if got := string(output.Tail(l, 3)); got != "end" {
			t.Errorf("after %d bytes: %q", to, got)
		}
		if c := l.Read(0, 100); len(c.Spans) != 1 || string(c.Spans[0].Data) != "begin" {
			t.Errorf("before %d bytes: %+v", to, c)
		}
		c := l.Read(6, 100)
		at := c.From
		for _, span := range c.Spans {
			want := make([]byte, len(span.Data))
			Pattern(want, at)
			if at < to || span.Stream != output.Stderr || !bytes.Equal(span.Data, want) {
				t.Errorf("after %d bytes, at %d: %v %q", to, at, span.Stream, span.Data)
			}
			at += int64(len(span.Data))
		}
		if got := l.Streams(0, 5); got != output.Streams(0).With(output.Stdout) {
			t.Errorf("streams before the gap: %b", got)
		}
		if got := l.Streams(0, end); !got.Has(output.Stderr) {
			t.Errorf("streams: %b", got)
		}
		if u := s.Usage(); u.Bytes > 4<<20 || u.Failure != nil {
			t.Errorf("after %d bytes: %+v", to, u)
		}
	}
}

// boundsGaps: gaps without end are listed in a list that has one.
func boundsGaps(t *testing.T, newStore func(int64) output.Store) {
	l := newLog(t, newStore(64<<20))
	const rounds = 6000
	for range rounds {
		at := l.Write(output.Stdout, []byte("x"))
		l.Skip(at+3, output.Loss{Disk: 2})
	}
	l.Finish()
	st := l.Stat()
	if n := len(st.Gaps); n > 5000 || st.End != 3*rounds || st.Dropped < 2*rounds || st.Loss.Disk != 2*rounds || st.Loss.Cap != st.Dropped-2*rounds {
		t.Errorf("%d gaps, end %d, dropped %d: %+v", n, st.End, st.Dropped, st.Loss)
	}
}
