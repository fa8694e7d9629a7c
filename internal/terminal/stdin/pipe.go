//go:build unix

// Package stdin is a pipe that is the standard input of a command, seen from the end that writes.
//
// [Pipe.Send] writes input and the end of file. A listener learns of each Send before a program can
// see the input: see [Pipe.OnSend]. [Pipe.Is] and [Pipe.Unread] are facts of the kernel by which
// package waiting recognizes a program that reads the pipe. A Pipe belongs to its opener, which
// closes it. The package starts no process and knows no job.
//
// Begin with the example, then Open.
package stdin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/terminal/pump"
)

// errClosed refuses input after the end of file.
var errClosed = errors.New("the command's standard input was closed by an earlier eof")

// A Pipe is the end of a standard input that this process writes.
type Pipe struct {
	w        *os.File
	dev, ino uint64

	turn sync.Mutex // held during a Send

	mu      sync.Mutex
	closed  bool
	sending bool
	onSend  func()
}

// Open opens a pipe. The caller gives the end that reads to one child and closes it.
func Open() (p *Pipe, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	p = &Pipe{w: w}
	var st unix.Stat_t
	if err := descriptor.Use(p.w, func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		r.Close()
		w.Close()
		return nil, nil, os.NewSyscallError("fstat", err)
	}
	p.dev, p.ino = uint64(st.Dev), st.Ino
	return p, r, nil
}

// Is reports whether st describes the pipe, by either of its ends.
func (p *Pipe) Is(st *unix.Stat_t) bool { return uint64(st.Dev) == p.dev && st.Ino == p.ino }

// Link returns the name by which Linux shows the pipe among the open files of a process.
func (p *Pipe) Link() string { return fmt.Sprintf("pipe:[%d]", p.ino) }

// Unread reports whether the pipe holds input that no program has read, or has been closed: a read
// ends at once. It reports true if the pipe can't be asked.
func (p *Pipe) Unread() bool {
	n := 0
	err := descriptor.Use(p.w, func(fd int) (err error) {
		n, err = pump.Buffered(fd)
		return err
	})
	return err != nil || n > 0
}

// Send writes text and then, if eof is set, closes the pipe. It ends when ctx does, and with an
// error if the pipe stays full.
func (p *Pipe) Send(ctx context.Context, text string, eof bool) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.Check(); err != nil {
		return err
	}
	p.setSending(true)
	defer p.setSending(false)
	if text != "" {
		n, err := pump.WriteBounded(ctx, p.w, []byte(text))
		if err != nil {
			return fmt.Errorf("writing to the command's standard input: only %d of %d bytes were taken, for %s", n, len(text), p.reason(err))
		}
	}
	if eof {
		p.Close()
	}
	return nil
}

// reason says why a write failed, and what helps.
func (p *Pipe) reason(err error) string {
	switch {
	case errors.Is(err, syscall.EPIPE):
		return "every program that could read it has closed it"
	case p.Closed():
		return "the command has ended"
	}
	return "the program does not read: send the rest when it does"
}

// Close closes the pipe. A Send that is in progress fails.
func (p *Pipe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.w.Close()
	}
}

// Closed reports whether the pipe has been closed.
func (p *Pipe) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// OnSend has f called at the start of each Send, before a program can see the input, and at its
// end, in the sender's goroutine. f must not send. There is one listener at a time; nil ends it,
// and no call is in progress when OnSend returns.
func (p *Pipe) OnSend(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onSend = f
}

// Sending reports whether a Send is in progress.
func (p *Pipe) Sending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sending
}

// Check returns an error if nothing can be sent any more.
func (p *Pipe) Check() error {
	if p.Closed() {
		return errClosed
	}
	return nil
}

// During runs f, which acts on the programs that read the pipe in another way than by input. To the
// listener it is a Send.
func (p *Pipe) During(f func() error) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.setSending(true)
	defer p.setSending(false)
	return f()
}

// setSending records the start or the end of a Send.
func (p *Pipe) setSending(sending bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = sending
	if p.onSend != nil {
		p.onSend()
	}
}
