package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Calls take effect in the order in which they were sent. The SDK hands each
// call to a goroutine of its own, so of two that arrive together the second
// could start its job first, and a session would run step two before step one.
//
// So a call is let in at the door only when the one before it has taken effect:
// its job is started, its input delivered, its stop asked for. Waiting is done
// behind the door, side by side.

// doorTime bounds how long a call may hold the door. None needs a thousandth of
// it; but a call that never reaches its handler must not stop a connection.
const doorTime = time.Second

// A door lets one call in at a time.
type door struct {
	wanted func(jsonrpc.ID) bool // whether the client waits for an answer still; the SDK tells a handler a little later

	mu sync.Mutex
	in *turn // the call that was let in last
}

// A turn is one call's passage through the door.
type turn struct {
	id     jsonrpc.ID
	once   sync.Once
	passed chan struct{} // closed when the call has taken effect
}

// pass tells that the call has taken effect, or never will.
func (t *turn) pass() { t.once.Do(func() { close(t.passed) }) }

// enter lets a call in once the one before it has passed.
func (d *door) enter(ctx context.Context, id jsonrpc.ID) {
	if before := d.current(); before != nil {
		limit := time.NewTimer(doorTime)
		defer limit.Stop()
		select {
		case <-before.passed:
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.in = &turn{id: id, passed: make(chan struct{})}
}

// current returns the call that was let in last: for its handler, itself.
func (d *door) current() *turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.in
}

// An orderly transport lets calls in by a door.
type orderly struct {
	*Transport
	door *door
}

// Connect implements mcp.Transport.
func (o orderly) Connect(context.Context) (mcp.Connection, error) {
	c := o.Transport.connect()
	o.door.wanted = c.calls.wanted
	return &orderlyConn{c, o.door}, nil
}

type orderlyConn struct {
	mcp.Connection
	door *door
}

// Read implements mcp.Connection.
func (c *orderlyConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if req, ok := m.(*jsonrpc.Request); ok && req.Method == "tools/call" && req.IsCall() {
		c.door.enter(ctx, req.ID)
	}
	return m, err
}

// Write implements mcp.Connection. An answer is the last chance to pass: calls
// that the SDK refuses have no handler.
func (c *orderlyConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if res, ok := m.(*jsonrpc.Response); ok {
		if t := c.door.current(); t != nil && t.id == res.ID {
			t.pass()
		}
		if res.Error != nil {
			m = &jsonrpc.Response{ID: res.ID, Error: protocolError(res.Error)}
		}
	}
	return c.Connection.Write(ctx, m)
}
