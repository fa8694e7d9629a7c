//go:build unix

package pump_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/racetest"
)

// patience bounds every wait: a test that runs into it has failed.
const patience = polltest.Patience

func newPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w = must.Get2(os.Pipe())(t)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// ended waits for the end of p.
func ended(t *testing.T, p *pump.Pump) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("the pump still reads")
	}
}

func TestAfterKeepsWhatWasWrittenBefore(t *testing.T) {
	r1, w1 := newPipe(t)
	r2, w2 := newPipe(t)
	got := make(chan string, 3) // for each of the three writes
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	first := pump.New(r1, func(b []byte) {
		once.Do(func() { close(entered); <-release })
		got <- string(b)
	})
	second := pump.New(r2, pump.After(first, func(b []byte) { got <- string(b) }))
	write := func(w *os.File, s string) {
		if _, err := io.WriteString(w, s); err != nil {
			t.Error(err)
		}
	}
	write(w1, "1")
	<-entered
	write(w1, "2")
	write(w2, "3")
	polltest.Until(t, "the last write is read", func() bool { return !second.Last().IsZero() })
	close(release)
	for _, want := range []string{"1", "2", "3"} {
		if s := <-got; s != want {
			t.Errorf("%q came in place of %q", s, want)
		}
	}
	first.Close()
	second.Close()
}

func TestReadsUntilTheEnd(t *testing.T) {
	r, w := newPipe(t)
	var got bytes.Buffer
	p := pump.New(r, func(b []byte) { got.Write(b) })
	if !p.Last().IsZero() {
		t.Errorf("last read at %v, want never", p.Last())
	}
	begin := time.Now()
	want := strings.Repeat("0123456789\n", 50_000)
	must.Get(io.WriteString(w, want))(t)
	p.Drain()
	if d := p.Last().Sub(begin); d <= 0 || d > patience {
		t.Errorf("last read was %v after the first write", d)
	}
	w.Close()
	ended(t, p)
	if got.String() != want {
		t.Errorf("read %d bytes, want %d", got.Len(), len(want))
	}
	p.Drain() // does nothing after the end
	p.Close()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading the pipe afterwards: %v, want it closed", err)
	}
}

// Everything that was written before a drain has been read after it.
func TestDrainIsComplete(t *testing.T) {
	r, w := newPipe(t)
	var mu sync.Mutex
	got := 0
	p := pump.New(r, func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		got += len(b)
	})
	written := 0
	for i := range 3000 {
		n, err := w.Write(make([]byte, 1+i%5000))
		if err != nil {
			t.Fatal(err)
		}
		written += n
		p.Drain()
		mu.Lock()
		have := got
		mu.Unlock()
		if have != written {
			t.Fatalf("read %d of %d bytes after drain %d", have, written, i)
		}
	}
	p.Close()
}

func TestCloseEndsAnIdlePump(t *testing.T) {
	r, w := newPipe(t)
	p := pump.New(r, func([]byte) {})
	p.Close() // while there is nothing to read
	ended(t, p)
	p.Close()
	p.Drain()
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("the pipe is still open")
	}
	closed, _ := newPipe(t)
	closed.Close()
	p = pump.New(closed, func([]byte) {})
	ended(t, p)
	p.Drain()
	p.Close()
}

// Everything that was written before Close is read, even if the sink is blocked meanwhile.
func TestCloseLosesNothing(t *testing.T) {
	for range 50 {
		r, w := newPipe(t)
		var got bytes.Buffer
		entered, held := make(chan struct{}), make(chan struct{})
		p := pump.New(r, func(b []byte) {
			if got.Write(b); got.Len() == len(b) { // the first call
				close(entered)
				<-held
			}
		})
		io.WriteString(w, "first, ")
		<-entered
		io.WriteString(w, "last words")
		calls, closed := make(chan struct{}), make(chan struct{})
		go func() { // ends when the sink is released
			defer close(closed)
			close(calls)
			p.Close()
		}()
		<-calls
		runtime.Gosched() // lets Close run up to where it waits, most of the time
		close(held)
		<-closed
		if want := "first, last words"; got.String() != want {
			t.Fatalf("got %q, want %q", &got, want)
		}
	}
}

// A pump can be closed while its writer never pauses.
func TestCloseInFlood(t *testing.T) {
	r, w := newPipe(t)
	go func() { // ends when the pipe is closed
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	seen := make(chan struct{}, 1) // one call is enough
	p := pump.New(r, func([]byte) {
		select {
		case seen <- struct{}{}:
		default:
		}
	})
	<-seen
	p.Close()
	ended(t, p)
}

func TestWriteIsBounded(t *testing.T) {
	_, w := newPipe(t)
	var n int
	var err error
	for d := 20 * time.Millisecond; n == 0 && d < patience; d *= 2 { // on a busy machine it can end before it begins
		ctx, cancel := context.WithTimeout(t.Context(), d)
		n, err = pump.WriteBounded(ctx, w, make([]byte, 1<<20))
		cancel()
	}
	if n == 0 || n == 1<<20 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a full pipe took %d bytes, error %v", n, err)
	}
	r, w := newPipe(t)
	if n, err := pump.WriteBounded(t.Context(), w, []byte("hello")); n != 5 || err != nil {
		t.Errorf("an empty pipe took %d bytes, error %v", n, err)
	}
	r.Close()
	if _, err := pump.WriteBounded(t.Context(), w, []byte("hello")); err == nil {
		t.Error("a pipe without a reader took something")
	}
}

// A write whose context ends just as it completes does not cut the next write short.
func TestCancelledWriteSparesTheNext(t *testing.T) {
	r, w := newPipe(t)
	p := pump.New(r, func([]byte) {})
	defer p.Close()
	rounds := 8000        // without the wait, one in 2,000 fails
	if racetest.Enabled { // the short tests make them all
		rounds = 2000
	}
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // ends at once
		pump.WriteBounded(ctx, w, []byte("a"))
		for range 3 {
			if n, err := pump.WriteBounded(t.Context(), w, []byte("b")); err != nil {
				t.Fatalf("round %d: the write after a cancelled one returned %d, %v", round, n, err)
			}
		}
	}
}
