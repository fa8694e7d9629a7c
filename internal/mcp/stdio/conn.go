package stdio

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/delivery"
)

const (
	// answerTime bounds how long calls that must be answered at once may take. They need next to
	// nothing, but on a busy machine they wait for a processor.
	answerTime = time.Second
	// flushTime bounds how long a client may take to read what is queued when the connection is closed.
	flushTime = 100 * time.Millisecond
	// turnTime bounds how long a call waits for the one before it to take effect. None needs a
	// thousandth of it, but a call that never reaches its handler must not stop the connection.
	turnTime = time.Second
)

// A conn is the connection of a Transport.
type conn struct {
	Transport
	lines chan inputLine       // unbuffered: a line is read when the one before is taken
	taken chan jsonrpc.Message // the same for messages that Divert has left
	eof   chan struct{}        // closed by the reader after the last line

	wake   chan struct{} // wakes the writer; buffered because one wake-up is as good as many
	failed chan struct{} // closed by the writer after a failed write

	uncut    func() bool // stops waiting for Cut
	closing  sync.Once
	closed   chan struct{}
	closeErr error

	mu    sync.Mutex
	state inFlight
}

// SessionID implements mcp.Connection: a stream has no sessions.
func (c *conn) SessionID() string { return "" }

// readLines passes on the lines of the stream. Once Cut is done it drops them and waits for the
// end.
func (c *conn) readLines() {
	defer func() {
		close(c.eof)
		c.recheck()
	}()
	r := newLineReader(c.Stream, c.MaxLine)
	for {
		line, err := r.next()
		if line.text != nil || line.tooLong {
			if !c.hand(line) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hand gives a line to Read or, with Divert, its message to whichever of the two it is for. It
// returns false when the connection is closed.
func (c *conn) hand(line inputLine) bool {
	lines, taken := c.lines, c.taken
	var m jsonrpc.Message
	if c.Divert == nil {
		taken = nil
	} else {
		if c.Cut.Err() != nil {
			return true
		}
		if m = c.takeOrRefuse(line); m == nil || c.Divert(m) {
			return true
		}
		lines = nil
	}
	select {
	case lines <- line:
	case taken <- m:
	case <-c.Cut.Done():
	case <-c.closed:
		return false
	}
	return true
}

// abandoned reports whether input has ended and Cut is done. Nothing is written then: some clients
// have already freed the reader of the answers, and crash if one comes.
func (c *conn) abandoned() bool {
	select {
	case <-c.eof:
		return c.Cut.Err() != nil
	default:
		return false
	}
}

// Read implements mcp.Connection. It returns the next message that is for the SDK and answers every
// other line itself.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if c.Cut.Err() != nil {
			return nil, c.end()
		}
		select {
		case line := <-c.lines:
			if m := c.takeOrRefuse(line); m != nil {
				return m, nil
			}
		case m := <-c.taken:
			return m, nil
		case <-c.eof:
			return nil, c.end()
		case <-c.Cut.Done():
			return nil, c.end()
		case <-c.failed:
			return nil, c.end()
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// end waits until no answer is owed to the client and returns io.EOF, at which the SDK cancels the
// remaining handlers.
func (c *conn) end() error {
	c.End()
	answered := c.when(allAnswered)
	drain := time.NewTimer(c.Drain)
	defer drain.Stop()
	select {
	case <-answered:
	case <-drain.C:
	case <-c.Cut.Done():
	case <-c.failed: // no client is left to answer
		return io.EOF
	case <-c.closed:
		return io.EOF
	}
	last, stop := context.WithTimeout(context.Background(), answerTime)
	defer stop()
	select {
	case <-answered:
	default:
		c.Leave()
		select {
		case <-answered:
		case <-last.Done():
		case <-c.failed:
		case <-c.closed:
		}
	}
	c.flush(last)
	return io.EOF
}

// takeOrRefuse returns the message of a line, or answers the line and returns nil.
func (c *conn) takeOrRefuse(line inputLine) jsonrpc.Message {
	m, refused := c.take(line)
	if refused != nil {
		c.Log.Warn("line refused", "reason", refused.message)
		c.refuse(refused)
		return nil
	}
	return m
}

// take decodes a line and enters what it starts or cancels. It returns neither a message nor a
// refusal for a line to be ignored.
func (c *conn) take(line inputLine) (jsonrpc.Message, *refusal) {
	if line.tooLong {
		return nil, refuse(nil, jsonrpc.CodeInvalidRequest,
			"the line is longer than %d bytes and was skipped: send less at a time, for instance the path of a file", c.MaxLine)
	}
	m, id, refused := decode(line.text)
	r, ok := m.(*jsonrpc.Request)
	switch {
	case refused != nil || !ok:
		return m, refused
	case r.IsCall():
		call := newCall(c, r, id, len(line.text))
		c.update(func(s *inFlight) { refused = s.open(call) })
		if refused != nil {
			return nil, refused
		}
		r.Extra = &mcp.RequestExtra{TokenInfo: delivery.Attach(auth.TokenInfo{}, call)}
		if c.Ordered && r.Method == "tools/call" {
			c.takeTurn(call)
		}
	case r.Method == "notifications/cancelled":
		id, ok := cancelledID(r.Params)
		if !ok { // the SDK would take a fraction for the whole number next to it
			return nil, nil
		}
		c.update(func(s *inFlight) { s.cancel(id) })
	}
	return m, nil
}

// takeTurn waits until the call that took its turn before has passed.
func (c *conn) takeTurn(call *Call) {
	var before *Call
	c.update(func(s *inFlight) { before, s.turn = s.turn, call })
	if before == nil || before.hasPassed() {
		return
	}
	limit := time.NewTimer(turnTime)
	defer limit.Stop()
	select {
	case <-before.passed:
	case <-limit.C:
	case <-c.Cut.Done():
	case <-c.failed:
	case <-c.closed:
	}
}

// Write implements mcp.Connection. It returns when the message is queued, for which it waits while
// the queue is full. Its errors wrap io.EOF: a client that reads no answers has left, and its
// session has not failed.
func (c *conn) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		line, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return err
		}
		return c.send(ctx, func(s *inFlight) { s.queue = append(append(s.queue, line...), '\n') })
	}
	c.update(func(s *inFlight) { // not later: the answer can have to wait for room
		if call := s.calls[r.ID]; call != nil {
			call.pass()
		}
	})
	err := c.send(ctx, func(s *inFlight) {
		// Not earlier, or an end of input could miss the answer. Not later, or the client could
		// have read it and used the id again.
		if call := s.close(r.ID, true); call != nil && !call.cancelled {
			s.queue = appendResponse(s.queue, call.id, r)
		}
	})
	if err != nil {
		c.update(func(s *inFlight) { s.close(r.ID, false) })
	}
	return err
}

// Close implements mcp.Connection. It first writes what is queued, if the client reads it soon.
func (c *conn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		last, stop := context.WithTimeout(context.Background(), flushTime)
		defer stop()
		c.flush(last)
		c.update((*inFlight).shut)
		c.uncut()
		c.closeErr = c.Stream.Close()
	})
	return c.closeErr
}
