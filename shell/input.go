package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"asyncrepl/internal/pump"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/waiting"
	"asyncrepl/jobs"
)

// onTerminal reports what the watcher has seen. The prompt is read after the terminal has been
// drained, so that it is complete.
func (r *run) onTerminal(ev waiting.Evidence, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = ev != waiting.Evidence{}
	if waits {
		r.pumps[0].Drain()
	}
	runner.SetTerminal(r.port, ev, waits, "")
}

// input hands what a client sent to the command. It reports whether a program was waiting, and does
// not require it: terminal and pipe keep what is sent ahead. The watcher retracts its report when
// something is typed, so mu is not held meanwhile.
func (r *run) input(ctx context.Context, in jobs.Input) (jobs.Delivery, error) {
	if runner.Ended(r.handle) {
		return jobs.Delivery{}, jobs.ErrEnded
	}
	if r.stdin != nil {
		return jobs.Delivery{Unseen: true}, r.stdin.send(ctx, in.Text, in.EOF)
	}
	r.mu.Lock()
	waited := r.reading
	r.mu.Unlock()
	return jobs.Delivery{Waiting: waited}, r.keyboard.Type(ctx, in.Text, in.EOF, in.Secret)
}

// errStdinClosed refuses input after the end of file.
var errStdinClosed = errors.New("the command's standard input was closed by an earlier eof")

// A pipe is the standard input of a command without a terminal.
type pipe struct {
	w      *os.File
	mu     sync.Mutex // held during a write
	closed atomic.Bool
}

// send writes text and, if eof is set, closes the pipe.
func (p *pipe) send(ctx context.Context, text string, eof bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return errStdinClosed
	}
	if text != "" {
		n, err := pump.WriteBounded(ctx, p.w, []byte(text))
		if err != nil {
			return fmt.Errorf("writing to the command's standard input: only %d of %d bytes were taken, for %s", n, len(text), p.reason(err))
		}
	}
	if eof {
		p.close()
	}
	return nil
}

// reason says why a write failed, and what helps.
func (p *pipe) reason(err error) string {
	switch {
	case errors.Is(err, syscall.EPIPE):
		return "every program that could read it has closed it"
	case p.closed.Load():
		return "the command has ended"
	}
	return "the program does not read: send the rest when it does"
}

// close closes the pipe. A write that is under way fails.
func (p *pipe) close() {
	if !p.closed.Swap(true) {
		p.w.Close()
	}
}
