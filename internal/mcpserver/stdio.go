package mcpserver

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Transport carries MCP over one stream, a JSON object a line, and makes one
// connection. The SDK's own ends the session where this one answers and goes on,
// drops the answers that are due at the end of input, and changes ids.
//
//   - A line that can't be used is answered with an error, and only that line is
//     lost. A call that was cancelled is not answered. Ids go back as they came.
//   - At the end of input, calls in flight are answered as they would be, for the
//     time of Drain. A failing write is an end of input for which nobody waits.
//   - Memory is bounded: a client that does not read its answers blocks its own
//     calls, one that sends more calls than it takes answers is refused. What it
//     sends is read nevertheless, for the end of it must be seen.
//
// A connection has two goroutines: one reads lines, one writes. Both end with
// Close; a read that closing the stream does not interrupt, as of a standard
// input, outlives it.
type Transport struct {
	Stream io.ReadWriteCloser

	// Cut, when done, ends the connection as the end of input does, but the calls
	// in flight are told to leave at once. Nil is never done.
	Cut context.Context
	// Leave is called, at most once, when calls in flight should answer with what
	// they have: Cut is done, or the drain is over. Nil tells nobody.
	Leave func()
	// Drain is how long calls in flight are waited for after the end of input.
	// 0 is 5 s.
	Drain time.Duration
	// MaxLine is how long a line may be. 0 is 16 MiB.
	MaxLine int
	// Log is told of lines that were refused. Nil is silent.
	Log *slog.Logger
}

const (
	defaultDrain   = 5 * time.Second
	defaultMaxLine = 16 << 20
	// lastWords is how long answers may take that were asked to come at once, and
	// the client to read them.
	lastWords = 100 * time.Millisecond
)

// Connect implements mcp.Transport.
func (t *Transport) Connect(context.Context) (mcp.Connection, error) { return t.connect(), nil }

func (t *Transport) connect() *lineConn {
	c := &lineConn{
		Transport: *t,
		lines:     make(chan inputLine),
		eof:       make(chan struct{}),
		closed:    make(chan struct{}),
		out:       newOutbox(t.Stream),
		calls:     newCalls(),
	}
	if c.Cut == nil {
		c.Cut = context.Background()
	}
	if c.Leave == nil {
		c.Leave = func() {}
	}
	if c.Drain == 0 {
		c.Drain = defaultDrain
	}
	if c.MaxLine == 0 {
		c.MaxLine = defaultMaxLine
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	go c.readLines() // owned by lineConn; ends at the end of input, or after Close with the read it is in
	go c.out.run()   // owned by lineConn; ends at Close or with a failing write
	return c
}

// A lineConn is the connection of a Transport.
type lineConn struct {
	Transport
	lines chan inputLine // unbuffered: a line is read when the one before is taken
	eof   chan struct{}  // closed by the reader behind the last line
	out   *outbox
	calls *calls
	vain  <-chan struct{} // what a call waited for too long: the next one need not

	closing  sync.Once
	closed   chan struct{}
	closeErr error
}

// SessionID implements mcp.Connection: a stream has no sessions.
func (c *lineConn) SessionID() string { return "" }

// readLines hands on line after line.
func (c *lineConn) readLines() {
	defer close(c.eof)
	r := newLineReader(c.Stream, c.MaxLine)
	for {
		line, err := r.next()
		if line.text != nil || line.tooLong {
			select {
			case c.lines <- line:
			case <-c.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Read implements mcp.Connection. It returns the next message that the SDK is to
// have; what else comes it answers itself.
func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		if c.Cut.Err() != nil {
			return nil, c.end()
		}
		select {
		case line := <-c.lines:
			m, refused := c.take(line)
			if refused != nil {
				c.Log.Warn("line refused", "reason", refused.message)
				c.out.refuse(refused)
				continue
			}
			if m != nil {
				return m, nil
			}
		case <-c.eof:
			return nil, c.end()
		case <-c.Cut.Done():
			return nil, c.end()
		case <-c.out.failed:
			return nil, c.end()
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// end waits until nothing is owed to the client any more, and is the end of input
// as the SDK is told it, which ends every handler that is left.
func (c *lineConn) end() error {
	answered := c.calls.answered()
	drain := time.NewTimer(c.Drain)
	defer drain.Stop()
	select {
	case <-answered:
	case <-drain.C:
	case <-c.Cut.Done():
	case <-c.out.failed: // there is nobody to answer
		return io.EOF
	case <-c.closed:
		return io.EOF
	}
	last, stop := context.WithTimeout(context.Background(), lastWords)
	defer stop()
	select {
	case <-answered:
	default:
		c.Leave()
		select {
		case <-answered:
		case <-last.Done():
		case <-c.out.failed:
		case <-c.closed:
		}
	}
	c.out.flush(last)
	return io.EOF
}

// take makes a message of a line, or the answer to one that can't be used. It
// returns neither for what is to be ignored.
func (c *lineConn) take(line inputLine) (jsonrpc.Message, *refusal) {
	if line.tooLong {
		return nil, refuse(line.id, jsonrpc.CodeInvalidRequest,
			"the line is longer than %d bytes and was skipped: send less at a time, for instance the path of a file", c.MaxLine)
	}
	e, refused := parseLine(line.text)
	if refused != nil {
		return nil, refused
	}
	if e.method == nil {
		m, refused := e.response()
		if m == nil {
			return nil, refused // not as a Message that holds a nil pointer
		}
		return m, nil
	}
	m, refused := e.request()
	if refused != nil {
		return nil, refused
	}
	switch {
	case m.IsCall():
		if refused := c.open(m.ID, call{id: e.id, bytes: len(line.text), endless: m.Method == "subscriptions/listen"}); refused != nil {
			return nil, refused
		}
	case m.Method == "notifications/cancelled":
		c.cancel(m)
	}
	return m, nil
}

// open enters a call, if need be when others have been answered. Where none is, one
// call waits for that, and not each that comes behind it.
func (c *lineConn) open(id jsonrpc.ID, new call) *refusal {
	var late <-chan time.Time
	for {
		less := c.calls.less() // before it is tried: none is missed
		refused := c.calls.open(id, new)
		if refused == nil || refused.code != codeBusy || less == c.vain {
			return refused
		}
		if late == nil {
			limit := time.NewTimer(busyTime)
			defer limit.Stop()
			late = limit.C
		}
		select {
		case <-less:
		case <-late:
			c.vain = less
			return refused
		case <-c.Cut.Done():
			return refused
		case <-c.out.failed:
			return refused
		case <-c.closed:
			return refused
		}
	}
}

// cancel notes that a call is not to be answered. The SDK ends its handler; it
// knows the call by our name.
func (c *lineConn) cancel(m *jsonrpc.Request) {
	raw := member(m.Params, "requestId")
	id, ok := parseID(raw)
	if !ok {
		return
	}
	c.calls.cancel(id)
	if isRenamed(id) {
		m.Params = withMember(m.Params, "requestId", appendJSON(nil, id.Raw()))
	}
}

// Write implements mcp.Connection. It returns when the message has its place in
// the queue to the client; there it waits only while the queue is full.
func (c *lineConn) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		return c.out.send(ctx, func(b []byte) []byte { return appendRequest(b, m.(*jsonrpc.Request)) })
	}
	queued := false
	err := c.out.send(ctx, func(b []byte) []byte {
		queued = true
		// No sooner, or a flush might miss the answer; no later, or the client might
		// have read it and use the id again.
		id, wanted := c.calls.close(r.ID)
		if !wanted {
			return b
		}
		return appendResponse(b, id, r)
	})
	if !queued {
		c.calls.close(r.ID)
	}
	return err
}

// Close implements mcp.Connection. What is queued is written first, if the client
// reads it soon.
func (c *lineConn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		last, stop := context.WithTimeout(context.Background(), lastWords)
		defer stop()
		c.out.flush(last)
		c.out.close()
		c.closeErr = c.Stream.Close()
	})
	return c.closeErr
}
