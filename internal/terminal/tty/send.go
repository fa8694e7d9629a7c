//go:build unix

package tty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// errFull means that the program does not read and the terminal has no room left.
var errFull = errors.New("terminal takes no more input: the program does not read")

// sendLimit bounds a Send whose context does not end, so that none queued after it waits for ever.
const sendLimit = 5 * time.Second

// Send types b at the terminal, complete and after earlier Sends, and returns how many bytes the
// terminal took. It ends when ctx does, and with an error if the terminal stays full.
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
	p.typed = true
	p.setSending(true)
	defer p.setSending(false)

	// Any other error means that the master is closed, as Write reports.
	if err := p.master.SetWriteDeadline(time.Now().Add(p.limit)); errors.Is(err, os.ErrNoDeadline) {
		return 0, fmt.Errorf("writing to %s: %w", p.slave.Name(), err)
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { defer close(cut); p.master.SetWriteDeadline(time.Unix(1, 0)) })
	n, err = p.master.Write(b)
	if !stop() { // the function has begun: wait, or its deadline could cut the next Send short
		<-cut
	}
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return n, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errFull
	}
	return n, fmt.Errorf("writing to %s: %w", p.slave.Name(), err)
}

// maxUnanswered bounds the bytes of answers that no program has read.
const maxUnanswered = 1 << 10

// Answer types b, the terminal's answer to a query of a program, if the terminal is silent at that
// moment and no program has input to read but earlier answers. It reports whether it typed b. To
// the listener it is a Send.
func (p *PTY) Answer(ctx context.Context, b []byte) bool {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return false
	}
	if !p.answerable() {
		return false
	}
	p.setSending(true)
	defer p.setSending(false)
	if p.master.SetWriteDeadline(time.Now().Add(p.limit)) != nil {
		return false
	}
	_, err := p.master.Write(b) // there is room
	return err == nil
}

// answerable reports whether a program that asked would read an answer, and no person would see it.
// The caller holds turn.
func (p *PTY) answerable() bool {
	unread, err := p.unread()
	if err != nil {
		return false
	}
	if unread == 0 {
		p.typed = false
	}
	mode, err := p.Mode()
	return err == nil && mode.Silent() && !p.typed && unread < maxUnanswered
}

// During runs f, which acts on the terminal's programs in another way than by typing. To the
// listener it is a Send.
func (p *PTY) During(f func() error) error {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.setSending(true)
	defer p.setSending(false)
	return f()
}

// OnSend has f called at the start of each Send, before a program can see the input, and at its
// end, in the sender's goroutine. f must not send. There is one listener at a time; nil ends it,
// and no call is in progress when OnSend returns.
func (p *PTY) OnSend(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onSend = f
}

// Sending reports whether a Send is in progress, keys are being typed, or an answer is being made.
func (p *PTY) Sending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sending || p.typing || p.asked.Load()
}

// SetTyping records whether keys are being typed in several Sends: a program that reads meanwhile
// waits for the next key. To the listener they are one Send.
func (p *PTY) SetTyping(typing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.typing = typing
	if p.onSend != nil {
		p.onSend()
	}
}

// SetAsked records whether answers for [PTY.Answer] are being made: a program that reads meanwhile
// waits for them. It never waits, not even for the listener.
func (p *PTY) SetAsked(asked bool) { p.asked.Store(asked) }

// setSending records the start or the end of a Send.
func (p *PTY) setSending(sending bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = sending
	if p.onSend != nil {
		p.onSend()
	}
}
