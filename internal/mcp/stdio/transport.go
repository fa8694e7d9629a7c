package stdio

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Transport serves one stream. It implements mcp.Transport and makes one connection.
type Transport struct {
	Stream io.ReadWriteCloser

	// Ordered hands over a call of a tool only when the one before has taken effect, which its
	// handler reports by [Call.Pass]. The SDK runs each call in a separate goroutine, so of two
	// calls sent together the second could otherwise take effect first.
	Ordered bool
	// Cut, when done, ends the connection as the end of input does, except that calls in flight
	// must be answered at once. If input has ended too, nothing more is written. Nil is never done.
	Cut context.Context
	// Divert, if it is set, is offered every message before the SDK is, and reports whether it has
	// taken it. A call that it takes is in flight until the connection's Write answers it. Divert
	// is called by the goroutine that reads the stream: a message that another goroutine passed on
	// would wait for a thread on a busy machine.
	Divert func(jsonrpc.Message) bool
	// End is called when no further message comes: input has ended and every message before it was
	// handed over, Cut is done, or a write has failed. Calls in flight are waited for after it. Nil
	// does nothing.
	End func()
	// Leave is called, at most once, when calls in flight must be answered at once with what there
	// is: Cut is done, or Drain is over. Nil does nothing.
	Leave func()
	// Drain is how long calls in flight may take after the end of input. 0 is 5 s.
	Drain time.Duration
	// MaxLine bounds the bytes of a line. 0 is 16 MiB.
	MaxLine int
	// Log receives a warning for each refused line. Nil discards it.
	Log *slog.Logger
}

const (
	defaultDrain   = 5 * time.Second
	defaultMaxLine = 16 << 20
)

// Connect implements mcp.Transport.
func (t *Transport) Connect(context.Context) (mcp.Connection, error) { return t.connect(), nil }

func (t *Transport) connect() *conn {
	c := &conn{
		Transport: *t,
		lines:     make(chan inputLine),
		taken:     make(chan jsonrpc.Message),
		eof:       make(chan struct{}),
		wake:      make(chan struct{}, 1),
		failed:    make(chan struct{}),
		closed:    make(chan struct{}),
		state:     newInFlight(),
	}
	c.Drain = cmp.Or(c.Drain, defaultDrain)
	c.MaxLine = cmp.Or(c.MaxLine, defaultMaxLine)
	if c.Cut == nil {
		c.Cut = context.Background()
	}
	if c.End == nil {
		c.End = func() {}
	}
	if c.Leave == nil {
		c.Leave = func() {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.uncut = context.AfterFunc(c.Cut, c.recheck) // owned by the connection; ends at once

	go c.readLines()  // owned by the connection; ends at the end of input, or with the read it is in after Close
	go c.writeQueue() // owned by the connection; ends at Close or with a failed write
	return c
}
