//go:build unix

package pump

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience bounds every wait: a test that runs into it has failed.
const patience = time.Minute

func newPipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func done(t *testing.T, p *Pump) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("the pump has not ended")
	}
}

func TestPump(t *testing.T) {
	r, w := newPipe(t)
	var got bytes.Buffer
	p := NewPump(r, false, func(b []byte) { got.Write(b) })
	if !p.Last().IsZero() {
		t.Errorf("something was read at %v", p.Last())
	}
	begin := time.Now()
	want := strings.Repeat("0123456789\n", 50_000)
	if _, err := io.WriteString(w, want); err != nil {
		t.Fatal(err)
	}
	p.Drain()
	if d := p.Last().Sub(begin); d <= 0 || d > patience {
		t.Errorf("last read %v after the first write", d)
	}
	w.Close()
	done(t, p)
	if got.String() != want {
		t.Errorf("%d bytes of %d", got.Len(), len(want))
	}
	p.Drain() // nothing, and no harm
	p.Close()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading the pipe afterwards: %v, want it closed", err)
	}
}

// All that was written before a drain is there after it, at once.
func TestDrainIsComplete(t *testing.T) {
	r, w := newPipe(t)
	var got int
	p := NewPump(r, false, func(b []byte) { got += len(b) })
	written := 0
	for i := range 3000 {
		n, err := w.Write(make([]byte, 1+i%5000))
		if err != nil {
			t.Fatal(err)
		}
		written += n
		p.Drain()
		p.mu.Lock()
		have := got
		p.mu.Unlock()
		if have != written {
			t.Fatalf("%d of %d bytes after drain %d", have, written, i)
		}
	}
	p.Close()
}

func TestPumpClose(t *testing.T) {
	r, w := newPipe(t)
	p := NewPump(r, false, func([]byte) {})
	p.Close() // while nothing is there to read
	done(t, p)
	p.Close()
	p.Drain()
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("the pipe is still open")
	}
	closed, _ := newPipe(t)
	closed.Close()
	p = NewPump(closed, false, func([]byte) {})
	done(t, p)
	p.Drain()
	p.Close()
}

// TestPumpCloseLosesNothing: what was written before Close arrives, also where the sink is held up meanwhile.
func TestPumpCloseLosesNothing(t *testing.T) {
	for range 50 {
		r, w := newPipe(t)
		var got bytes.Buffer
		entered, held := make(chan struct{}), make(chan struct{})
		p := NewPump(r, false, func(b []byte) {
			if got.Write(b); got.Len() == len(b) { // the first time
				close(entered)
				<-held
			}
		})
		io.WriteString(w, "first, ")
		<-entered
		io.WriteString(w, "last words")
		calls, closed := make(chan struct{}), make(chan struct{})
		go func() { // ends when the sink is let go
			defer close(closed)
			close(calls)
			p.Close()
		}()
		<-calls
		runtime.Gosched() // it has come as far as it can, more often than not
		close(held)
		<-closed
		if want := "first, last words"; got.String() != want {
			t.Fatalf("got %q, want %q", &got, want)
		}
	}
}

// A pump that is being flooded can be closed.
func TestPumpCloseInFlood(t *testing.T) {
	r, w := newPipe(t)
	go func() { // ends when the pipe is closed
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	seen := make(chan struct{}, 1) // the first is enough
	p := NewPump(r, false, func([]byte) {
		select {
		case seen <- struct{}{}:
		default:
		}
	})
	<-seen
	p.Close()
	done(t, p)
}

func TestWriteBounded(t *testing.T) {
	_, w := newPipe(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	n, err := WriteBounded(ctx, w, make([]byte, 1<<20))
	if n == 0 || n == 1<<20 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a full pipe took %d bytes, error %v", n, err)
	}
	r, w := newPipe(t)
	if n, err := WriteBounded(t.Context(), w, []byte("hello")); n != 5 || err != nil {
		t.Errorf("an empty pipe took %d bytes, error %v", n, err)
	}
	r.Close()
	if _, err := WriteBounded(t.Context(), w, []byte("hello")); err == nil {
		t.Error("a pipe without a reader took something")
	}
}

// A write whose context ends as it is done does not cut the next one short.
func TestWriteBoundedEndsItsOwnOnly(t *testing.T) {
	r, w := newPipe(t)
	p := NewPump(r, false, func([]byte) {})
	defer p.Close()
	for round := range 8000 { // one in 2,000 was hit
		ctx, cancel := context.WithCancel(t.Context())
		go cancel() // ends at once
		WriteBounded(ctx, w, []byte("a"))
		for range 3 {
			if n, err := WriteBounded(t.Context(), w, []byte("b")); err != nil {
				t.Fatalf("round %d: %d, %v from a write after one that was cancelled", round, n, err)
			}
		}
	}
}
