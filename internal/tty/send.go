//go:build unix

package tty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrFull is returned by Send when the terminal takes no more: the program does not read.
var ErrFull = errors.New("terminal takes no more input: the program does not read")

// sendLimit bounds a Send whose context does not: nobody behind it waits for ever.
const sendLimit = 5 * time.Second

// Send types b at the terminal, whole and after what was sent before, and tells how much of it was taken. It ends when
// ctx does, and with ErrFull when the terminal is full and stays so.
//
// From its first moment on nothing is said any more of a program that was waiting: what it does with the input must be
// seen anew.
func (p *PTY) Send(ctx context.Context, b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	p.mark()
	defer p.mark()

	if err := p.master.SetWriteDeadline(time.Now().Add(p.limit)); errors.Is(err, os.ErrNoDeadline) { // any other: it is closed, as Write tells
		return 0, fmt.Errorf("writing to %s: %w", p.name, err)
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(cut); p.master.SetWriteDeadline(time.Unix(1, 0)) })
	n, err = p.master.Write(b)
	if !stop() { // it has begun: let it not cut the next Send short
		<-cut
	}
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return n, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, ErrFull
	}
	return n, fmt.Errorf("writing to %s: %w", p.name, err)
}

// mark notes the start or the end of a Send.
func (p *PTY) mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks++
	if p.watch != nil {
		p.watch.answered()
	}
}

// sends is the number of marks so far.
func (p *PTY) sends() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks
}

// watchedBy has w told of each mark; nil: nobody watches.
func (p *PTY) watchedBy(w *Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = w
}

// standstill returns clocks by which it can be told later whether a process of the job has run since; nil if that can't
// be told.
func (p *PTY) standstill() *clocks {
	p.mu.Lock()
	w := p.watch
	p.mu.Unlock()
	if w == nil {
		return nil
	}
	var c clocks
	for try := 1; c.follow(w.Tree()); try++ {
		if try == 3 { // it grows
			return nil
		}
	}
	if c.blind {
		return nil
	}
	return &c
}
