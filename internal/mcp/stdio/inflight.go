package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"asyncrepl/internal/mcp/delivery"
)

const (
	// maxHeld bounds the bytes that calls in flight may hold. Each counts its line, and callCost
	// for its goroutine. That is about 4,000 calls, or three of the longest lines.
	maxHeld  = 64 << 20
	callCost = 16 << 10
	// maxQueued bounds the bytes queued for the client; answers beyond it wait.
	maxQueued = 1 << 20
	// maxRefused bounds the bytes queued with refusals; those beyond it are dropped.
	maxRefused = 2 * maxQueued
	// keptBuffer is the largest buffer that is kept for the next messages.
	keptBuffer = 64 << 10
)

// A Call is a request in flight. Its methods are for the handler of the request, which receives it
// as its [delivery.Ticket].
type Call struct {
	conn    *conn
	key     jsonrpc.ID      // the id that the SDK has for the call
	id      json.RawMessage // the id that the client wrote
	cost    int
	endless bool          // answered only when it is cancelled, so its answer is not waited for
	passed  chan struct{} // closed when the call has taken effect

	// Guarded by conn.mu.
	cancelled bool // not to be answered
	onAnswer  func(queued bool)
	onCancel  func()
}

var _ delivery.Ticket = (*Call)(nil)

func newCall(c *conn, r *jsonrpc.Request, id json.RawMessage, size int) *Call {
	return &Call{
		conn: c, key: r.ID, id: id,
		cost:    callCost + size,
		endless: r.Method == "subscriptions/listen",
		passed:  make(chan struct{}),
	}
}

// Pass reports that the call has taken effect, so that the next one can begin. An answer passes
// too.
func (call *Call) Pass() { call.conn.update(func(*inFlight) { call.pass() }) }

// pass is Pass for the holder of the lock.
func (call *Call) pass() {
	if !call.hasPassed() {
		close(call.passed)
	}
}

func (call *Call) hasPassed() bool {
	select {
	case <-call.passed:
		return true
	default:
		return false
	}
}

// OnAnswer makes the connection call f when the answer is queued to the client, or dropped because
// the call was cancelled or the connection has ended. f must neither block nor use the call. It is
// not called if the SDK gives no answer, as when it closes the connection.
func (call *Call) OnAnswer(f func(queued bool)) {
	call.conn.update(func(*inFlight) { call.onAnswer = f })
}

// OnCancel makes the connection call f when the client cancels the call, at once if it has done so
// already. Calls that come after the cancel are handed over later. f must neither block nor use the
// call.
func (call *Call) OnCancel(f func()) {
	call.conn.update(func(*inFlight) {
		if call.onCancel = f; call.cancelled {
			f()
		}
	})
}

// inFlight is all that changes while a connection is served. Only conn.update changes it.
type inFlight struct {
	calls map[jsonrpc.ID]*Call // given to the SDK and not answered
	held  int                  // the sum of their costs
	turn  *Call                // the last call that took its turn; may have been answered

	queue   []byte // messages to write
	spare   []byte // the buffer that was written last, for the queue after the next write
	writing bool   // the writer is in a Write
	closed  bool   // nothing more is queued
	err     error  // the error of the failed write, after which nothing more is queued

	waiting [conditions]chan struct{} // one for each condition, nil while no goroutine waits for it
}

// A condition is a fact about the state that goroutines wait for.
type condition int

const (
	hasRoom     condition = iota // the queue takes another answer, or never will again
	allAnswered                  // the client waits for no answer, or gets none any more
	allWritten                   // nothing is queued or being written
	conditions                   // the number of conditions
)

func newInFlight() inFlight { return inFlight{calls: make(map[jsonrpc.ID]*Call)} }

// update lets f change the state, checks it and wakes the goroutines that wait for it. If the
// connection is abandoned, update first shuts the state.
func (c *conn) update(f func(*inFlight)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.state
	if !s.closed && c.abandoned() {
		s.shut()
	}
	f(s)
	s.check()
	for cond, ch := range s.waiting {
		if ch != nil && s.holds(condition(cond)) {
			close(ch)
			s.waiting[cond] = nil
		}
	}
	if len(s.queue) > 0 && !s.writing || s.closed {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// recheck wakes the goroutines that wait for what the end of input or Cut has changed.
func (c *conn) recheck() { c.update(func(*inFlight) {}) }

// check panics if the state contradicts itself.
func (s *inFlight) check() {
	switch {
	case s.held < len(s.calls)*callCost, len(s.calls) == 0 && s.held != 0:
		panic(fmt.Sprintf("stdio: %d calls in flight hold %d bytes", len(s.calls), s.held))
	case s.held > maxHeld && len(s.calls) > 1:
		panic(fmt.Sprintf("stdio: calls in flight hold %d bytes, the bound is %d", s.held, maxHeld))
	case (s.closed || s.err != nil) && len(s.queue) > 0:
		panic(fmt.Sprintf("stdio: %d bytes are queued after the end", len(s.queue)))
	}
}

// holds reports whether a condition holds.
func (s *inFlight) holds(cond condition) bool {
	switch cond {
	case hasRoom:
		return len(s.queue) < maxQueued || s.closed || s.err != nil
	case allAnswered:
		if s.closed {
			return true
		}
		for _, call := range s.calls {
			if !call.endless && !call.cancelled {
				return false
			}
		}
		return true
	case allWritten:
		return len(s.queue) == 0 && (!s.writing || s.closed || s.err != nil)
	}
	return false
}

// when returns a channel that update closes once the condition holds.
func (s *inFlight) when(cond condition) <-chan struct{} {
	if s.waiting[cond] == nil {
		s.waiting[cond] = make(chan struct{})
	}
	return s.waiting[cond]
}

// when is inFlight.when for a caller that has no other business with the state.
func (c *conn) when(cond condition) (ch <-chan struct{}) {
	c.update(func(s *inFlight) { ch = s.when(cond) })
	return ch
}

// open enters a call, or refuses it. The refusal of a call whose id is in flight has no id, because
// the client would take it for the answer to the first call.
func (s *inFlight) open(call *Call) *refusal {
	n := len(s.calls)
	switch {
	case s.calls[call.key] != nil:
		return refuse(nil, jsonrpc.CodeInvalidRequest,
			"id %s is that of a call still in flight: give each call an id of its own", call.id)
	case n > 0 && s.held+call.cost > maxHeld:
		return refuse(call.id, codeBusy, "%d calls are in flight, as many as the server holds in %d MiB: wait for their answers", n, maxHeld>>20)
	}
	s.calls[call.key] = call
	s.held += call.cost
	return nil
}

// cancel notes that a call must not be answered. The SDK cancels its handler.
func (s *inFlight) cancel(key jsonrpc.ID) {
	call := s.calls[key]
	if call == nil || call.cancelled {
		return
	}
	call.cancelled = true
	if call.onCancel != nil {
		call.onCancel()
	}
}

// close takes out a call that has its answer now, and returns nil if there is no such call. Unless
// the call was cancelled, the answer is queued if toQueue is set.
func (s *inFlight) close(key jsonrpc.ID, toQueue bool) *Call {
	call := s.calls[key]
	if call == nil {
		return nil
	}
	delete(s.calls, key)
	s.held -= call.cost
	if call.onAnswer != nil {
		call.onAnswer(toQueue && !call.cancelled)
	}
	return call
}

// shut drops what is queued and lets nothing more be queued.
func (s *inFlight) shut() { s.closed, s.queue = true, nil }

// send lets queue append a message, or none, to the queue of the state. It waits while that is
// full.
func (c *conn) send(ctx context.Context, queue func(*inFlight)) (err error) {
	for {
		var room <-chan struct{}
		c.update(func(s *inFlight) {
			switch {
			case s.err != nil:
				err = fmt.Errorf("writing to the client: %v: %w", s.err, io.EOF)
			case s.closed:
				err = fmt.Errorf("connection closed: %w", io.EOF)
			case len(s.queue) >= maxQueued:
				room = s.when(hasRoom)
			default:
				queue(s)
			}
		})
		if room == nil {
			return err
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refuse queues a refusal. It never waits, because Read must continue to see the end of input. A
// client that reads no answers loses the refusals for which there is no room.
func (c *conn) refuse(r *refusal) {
	c.update(func(s *inFlight) {
		if s.err == nil && !s.closed && len(s.queue) < maxRefused {
			s.queue = r.appendTo(s.queue)
		}
	})
}

// writeQueue writes what is queued until the connection is closed or a write fails. It is the only
// writer of the stream: senders never wait in a write, and messages that come together go out in
// one.
func (c *conn) writeQueue() {
	for {
		var batch []byte
		var closed bool
		c.update(func(s *inFlight) {
			closed = s.closed
			if len(s.queue) > 0 {
				batch, s.queue, s.spare = s.queue, s.spare, nil
				s.writing = true
			}
		})
		if batch == nil {
			if closed {
				return
			}
			<-c.wake
			continue
		}
		_, err := c.Stream.Write(batch)
		c.update(func(s *inFlight) {
			s.writing = false
			if cap(batch) <= keptBuffer {
				s.spare = batch[:0]
			}
			if err != nil {
				s.err, s.queue = err, nil
			}
		})
		if err != nil {
			close(c.failed)
			return
		}
	}
}

// flush waits until everything is written. If ctx is done before, the rest is dropped, so that
// nothing waits for a client that does not read.
func (c *conn) flush(ctx context.Context) {
	select {
	case <-c.when(allWritten):
	case <-ctx.Done():
		c.update((*inFlight).shut)
	}
}
