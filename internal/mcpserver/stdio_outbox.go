package mcpserver

import (
	"context"
	"fmt"
	"io"
	"sync"

	"asyncrepl/internal/view"
)

const (
	// maxQueued is how many bytes may wait for the client before senders wait too.
	maxQueued = 1 << 20
	// maxRefused is how many may wait before refusals are only counted.
	maxRefused = 2 * maxQueued
	// keptBuffer is the largest buffer that is kept for the next messages.
	keptBuffer = 64 << 10
)

// An outbox is the queue of messages to a client, and the one goroutine that
// writes it: senders never wait in a write, and what has come together goes out
// in one.
type outbox struct {
	w      io.Writer
	wake   chan struct{} // buffered: one wake-up is as good as many
	failed chan struct{} // closed when a write has failed

	mu      sync.Mutex
	queue   []byte
	untold  int    // refusals that did not fit; they came behind what is queued
	spare   []byte // the buffer that was written last
	writing bool
	closed  bool
	err     error         // of the write that failed
	changed chan struct{} // closed and replaced after each write; nil while nobody waits
}

func newOutbox(w io.Writer) *outbox {
	return &outbox{w: w, wake: make(chan struct{}, 1), failed: make(chan struct{})}
}

// run writes what is queued until the outbox is closed or a write fails.
func (o *outbox) run() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 {
			closed := o.closed
			o.mu.Unlock()
			if closed {
				return
			}
			<-o.wake
			continue
		}
		b := o.queue
		if o.untold > 0 {
			b = untold(o.untold).appendTo(b)
		}
		o.queue, o.spare, o.untold = o.spare[:0], nil, 0
		o.writing = true
		o.mu.Unlock()

		_, err := o.w.Write(b)

		o.mu.Lock()
		o.writing = false
		if cap(b) <= keptBuffer {
			o.spare = b[:0]
		}
		if err != nil {
			o.err = err
			o.queue = nil
			close(o.failed)
		}
		o.tell()
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// tell wakes who waits for a change. The lock is held.
func (o *outbox) tell() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// wait waits for a change, without the lock that is held before and after.
func (o *outbox) wait(ctx context.Context) error {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	changed := o.changed
	o.mu.Unlock()
	defer o.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send queues the message that write appends, which may be none. It waits while
// the queue is full. Its errors are ends of input: a client that takes no answers
// is gone, and its session has not failed for that.
func (o *outbox) send(ctx context.Context, write func([]byte) []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && !o.closed && len(o.queue) >= maxQueued {
		if err := o.wait(ctx); err != nil {
			return err
		}
	}
	switch {
	case o.err != nil:
		return fmt.Errorf("writing to the client: %v: %w", o.err, io.EOF)
	case o.closed:
		return fmt.Errorf("connection closed: %w", io.EOF)
	}
	o.queue = write(o.queue)
	o.wakeUp()
	return nil
}

// refuse queues a refusal. It never waits: who reads lines goes on, whether or not
// the client takes its answers, or the end of its input would not be seen. What
// does not fit any more is counted, and the client is told how many they were.
func (o *outbox) refuse(r *refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil, o.closed:
	case len(o.queue) >= maxRefused:
		o.untold++
	default:
		o.queue = r.appendTo(o.queue)
		o.wakeUp()
	}
}

// untold stands for refusals that were only counted.
func untold(n int) *refusal {
	return refuse(nil, codeBusy, "%s more lines were refused, and too many answers waited to tell each: read answers while you send", view.Count(n))
}

func (o *outbox) wakeUp() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// flush waits until all is written, as long as ctx allows. If that is not enough,
// the outbox is closed: nobody is to wait for a client that does not read.
func (o *outbox) flush(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && !o.closed && (len(o.queue) > 0 || o.writing) {
		if o.wait(ctx) != nil {
			o.shut()
		}
	}
}

// close ends the writer after the write it is in. Closing the stream ends that.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut()
}

// shut drops what is queued and fails whoever waits. The lock is held.
func (o *outbox) shut() {
	o.closed = true
	o.queue = nil
	o.tell()
	o.wakeUp()
}
