//go:build unix

// Package pump reads pipes and terminals in the background, and can say when everything that was
// written up to now has been read.
//
// A Pump reads one file until every holder of the other end has closed it, or until Close. It hands
// the bytes to one function, its sink. Pump.Drain returns when everything that the file held at the
// call has reached the sink: a program's last words are complete once its end is known and its pump
// has been drained, even if a child of it holds the other end open.
//
// The package does not interpret the bytes, and starts no process. Begin with the example, then
// New.
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

// Sizes in bytes. A read is of chunkSize at most, which also bounds a drain of anything but a pipe; a
// terminal holds less. A pipe that a read has found full holds and gives floodSize from then on: its
// writer waits less often, and reading and keeping cost a third less.
const (
	chunkSize = 64 << 10
	floodSize = 256 << 10
)

// The buffers of all pumps. A pump takes one only while there is something to read, so that an idle
// pump costs none.
var (
	chunks = buffers(chunkSize)
	floods = buffers(floodSize)
)

func buffers(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// A Pump reads one file. Its methods can be called by several goroutines.
type Pump struct {
	file *os.File
	conn syscall.RawConn // nil: the file was closed already
	owns bool            // the pump closes file
	pipe bool            // the kernel knows how many bytes it holds
	sink func([]byte)
	born time.Time
	last atomic.Int64 // nanoseconds since born; 0: nothing was read
	stop atomic.Bool
	done chan struct{}

	buffers *sync.Pool // chunks or floods; only run uses it

	mu sync.Mutex // held from before a read until sink returns
}

// Pipe returns a pipe to be read by New. The write end is meant for another process: it blocks, and
// costs this process's poller nothing.
func Pipe() (r, w *os.File, err error) { return pipe() }

// New starts to read f, which must be non-blocking, as the read end of Pipe is. The pump owns f and
// closes it when it ends. Calls of sink do not overlap, and the slice is sink's only until it
// returns.
func New(f *os.File, sink func([]byte)) *Pump { return start(f, true, sink) }

// Shared is New for a file that stays the caller's: the pump does not close it.
func Shared(f *os.File, sink func([]byte)) *Pump { return start(f, false, sink) }

// After returns a sink that drains first before it hands bytes on to sink. Two pipes have no order,
// but what a program wrote to the file of first before these bytes is in it by now: its output so
// far comes before its traceback. The sink of first must not wait for the returned one.
func After(first *Pump, sink func([]byte)) func([]byte) {
	return func(b []byte) {
		first.Drain()
		sink(b)
	}
}

func start(f *os.File, owns bool, sink func([]byte)) *Pump {
	p := &Pump{file: f, owns: owns, sink: sink, born: time.Now(), done: make(chan struct{}), buffers: chunks}
	conn, err := f.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			var st unix.Stat_t
			p.pipe = unix.Fstat(int(fd), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
		})
	}
	if err != nil { // closed already
		close(p.done)
		return p
	}
	p.conn = conn
	go p.run() // owned by the caller; ends at the end of f or by Close
	return p
}

func (p *Pump) run() {
	defer close(p.done)
	p.conn.Read(func(fd uintptr) bool { return p.readAvailable(int(fd)) })
	if p.owns {
		p.file.Close()
	}
}

// readAvailable reads until nothing is there, and reports whether nothing will come any more.
func (p *Pump) readAvailable(fd int) (ended bool) {
	buf := p.buffers.Get().(*[]byte)
	defer func() { p.buffers.Put(buf) }()
	for !p.stop.Load() {
		p.mu.Lock()
		n, err := p.read(fd, *buf)
		p.mu.Unlock()
		switch {
		case n == chunkSize && p.pipe && p.buffers == chunks: // it was full
			enlarge(fd, floodSize)
			chunks.Put(buf)
			p.buffers, buf = floods, floods.Get().(*[]byte)
		case n > 0:
		case errors.Is(err, unix.EAGAIN):
			return false
		default: // end of file, or a terminal's EIO
			return true
		}
	}
	return true
}

// read makes one read into buf and hands it to the sink. The caller holds mu.
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

// Drain returns when everything that the file held at the call has reached the sink. It never waits
// for more, and reads few of the bytes that are written meanwhile, so that a program that writes
// without pause does not delay it.
func (p *Pump) Drain() {
	if p.conn == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.Control(func(fd uintptr) { // an error: the file was closed
		rest := chunkSize
		if p.pipe { // a terminal can answer 0 while output is still in transit
			n, err := Buffered(int(fd))
			if err != nil || n == 0 {
				return
			}
			rest = n
		}
		buf := chunks.Get().(*[]byte)
		defer chunks.Put(buf)
		for rest > 0 {
			n, err := p.read(int(fd), (*buf)[:min(rest, chunkSize)])
			if n <= 0 || err != nil {
				return
			}
			rest -= n
		}
	})
}

// Done returns a channel that is closed when nothing more will be read: the last holder of the
// other end has closed it, or Close was called.
func (p *Pump) Done() <-chan struct{} { return p.done }

// Last returns the time of the last read that returned data, or the zero time if there was none.
func (p *Pump) Last() time.Time {
	d := p.last.Load()
	if d == 0 {
		return time.Time{}
	}
	return p.born.Add(time.Duration(d))
}

// Close drains the pump and ends it. It waits for a call of the sink that is under way, so a sink
// must not call it.
func (p *Pump) Close() {
	p.Drain()
	p.stop.Store(true)
	p.file.SetReadDeadline(time.Unix(1, 0))
	<-p.done
}

// writeLimit bounds a write whose context has no deadline.
const writeLimit = 5 * time.Second

// WriteBounded writes b to a pipe with a reader that can be slow. It stops when ctx ends and after
// 5 s, and returns the number of bytes written. Writes to one file must not overlap.
func WriteBounded(ctx context.Context, f *os.File, b []byte) (int, error) {
	if err := f.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(expired); f.SetWriteDeadline(time.Unix(1, 0)) })
	n, err := f.Write(b)
	if !stop() { // the function has begun: wait, or its deadline could cut the next write short
		<-expired
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}
