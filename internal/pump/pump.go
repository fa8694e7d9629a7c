//go:build unix

package pump

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// chunkSize is what a pump reads at most at a time. It is also what a drain reads at most of a PTY, which holds less.
const chunkSize = 64 << 10

// chunks are the buffers of all pumps. A pump holds one only while there is something to read, so that an idle one
// costs none.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Pump reads a pipe or a PTY's master for as long as anybody holds its other end, and hands what it reads to sink.
type Pump struct {
	file *os.File
	conn syscall.RawConn
	tty  bool
	sink func([]byte)
	born time.Time
	last atomic.Int64 // since born, in nanoseconds; 0: nothing has come
	stop atomic.Bool
	done chan struct{}

	mu sync.Mutex // held from before a read until sink has what was read
}

// NewPump starts to read f. Calls of sink do not overlap; what it is handed is its own only until it returns. A pipe's
// f is the pump's from here on and closed at its end; a PTY's master stays the PTY's.
func NewPump(f *os.File, tty bool, sink func([]byte)) *Pump {
	p := &Pump{file: f, tty: tty, sink: sink, born: time.Now(), done: make(chan struct{})}
	conn, err := f.SyscallConn()
	if err != nil { // closed already
		close(p.done)
		return p
	}
	p.conn = conn
	go p.run() // owned by whoever made the pump; ends at the end of f or by Close
	return p
}

func (p *Pump) run() {
	defer close(p.done)
	p.conn.Read(func(fd uintptr) bool { return p.burst(int(fd)) })
	if !p.tty {
		p.file.Close()
	}
}

// burst reads until nothing is there, and tells whether nothing will come any more.
func (p *Pump) burst(fd int) (ended bool) {
	buf := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(buf)
	for !p.stop.Load() {
		p.mu.Lock()
		n, err := p.read(fd, buf[:])
		p.mu.Unlock()
		switch {
		case n > 0:
		case errors.Is(err, unix.EAGAIN):
			return false
		default: // an end of file, and EIO is a terminal's
			return true
		}
	}
	return true
}

// read moves what is there to the sink, at most len(buf). The caller holds mu.
func (p *Pump) read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if n > 0 {
			p.last.Store(int64(max(1, time.Since(p.born))))
			p.sink(buf[:n])
		}
		return n, err
	}
}

// Drain returns when all that lay in the pipe or terminal at its call has been handed to the sink. It never waits for
// more, and reads little of what is written meanwhile, so that a program that floods it does not hold it up.
func (p *Pump) Drain() {
	if p.conn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.Control(func(fd uintptr) { // an error: it was closed
		rest := chunkSize
		if !p.tty {
			// Asked once. What a terminal answers is not to be trusted: it may say 0 while output is on its way.
			n, err := unix.IoctlGetInt(int(fd), inputQueue)
			if err != nil {
				return
			}
			rest = n
		}
		buf := chunks.Get().(*[chunkSize]byte)
		defer chunks.Put(buf)
		for rest > 0 {
			n, err := p.read(int(fd), buf[:min(rest, chunkSize)])
			if n <= 0 || err != nil {
				return
			}
			rest -= n
		}
	})
}

// Done is closed when nothing will come any more: the last holder of the other end has closed it, or Close was called.
func (p *Pump) Done() <-chan struct{} { return p.done }

// Last is when something was read last, the zero time if nothing was.
func (p *Pump) Last() time.Time {
	d := p.last.Load()
	if d == 0 {
		return time.Time{}
	}
	return p.born.Add(time.Duration(d))
}

// Close ends the pump when what lay in the pipe or terminal at its call has been handed to the sink. It waits for a sink
// that is at work, so a sink must not call it.
func (p *Pump) Close() {
	p.Drain()
	p.stop.Store(true)
	p.file.SetReadDeadline(time.Unix(1, 0))
	<-p.done
}

// writeLimit bounds a write whose context does not.
const writeLimit = 5 * time.Second

// WriteBounded writes b to a pipe, whose reader may be in no hurry. It gives up when ctx ends and after 5 s, and tells
// how much was taken. Writes to one file must not overlap.
func WriteBounded(ctx context.Context, f *os.File, b []byte) (int, error) {
	if err := f.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(cut); f.SetWriteDeadline(time.Unix(1, 0)) })
	n, err := f.Write(b)
	if !stop() { // it has begun: let it not cut the next write short
		<-cut
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}
