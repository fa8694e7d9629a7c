package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that has listed the resources, or subscribed to changes of the list, is notified of new
// jobs: once for all that start within changePause, and at most once in changeEvery.
const (
	changePause = time.Second
	changeEvery = 10 * time.Second
)

// Changes hold back the notification of one connection that the list of resources has changed. The
// client gets none before it has asked for the list, or for its changes.
type Changes struct {
	Notify func() // sends it, in the era of the connection

	mu     sync.Mutex
	wanted bool        // the client has asked for the list, or for its changes
	timer  *time.Timer // runs while a notification is held back; nil: none is
	last   time.Time   // the time of the last notification
	closed bool        // the connection has ended
}

// want notes that the client must be notified from now on.
func (c *Changes) want() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = true
}

// Changed notes that the list has changed.
func (c *Changes) Changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted && !c.closed && c.timer == nil {
		// Owned by the connection, at whose end Close stops it.
		c.timer = time.AfterFunc(max(changePause, changeEvery-time.Since(c.last)), c.send)
	}
}

// send notifies the client.
func (c *Changes) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.timer, c.last = nil, time.Now()
		c.Notify()
	}
}

// Close ends the notifications.
func (c *Changes) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Follow is a middleware that notes when the client asks for the list or for its changes.
func (c *Changes) Follow(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "resources/list" || method == "subscriptions/listen" {
			c.want()
		}
		return next(ctx, method, req)
	}
}
