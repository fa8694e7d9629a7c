package httpserver

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/delivery"
)

// A call is the [delivery.Ticket] of the calls in one HTTP request. Only a batch, which
// the first version of the protocol allows, has more than one call. Calls over HTTP have no order.
type call struct {
	closed context.Context    // done when the request is over or must be answered, or its client has closed it
	drop   context.CancelFunc // ends the request
	answer *writer
	batch  bool
	seen   *observation // of the request; nil if requests are not reported

	cancelling sync.Once

	mu        sync.Mutex
	begun     int  // calls
	over      bool // the request is over
	cancelled bool // by the client, before the answer
	onAnswer  []func(queued bool)
	onCancel  []func()
}

var _ delivery.Ticket = (*call)(nil)

// Pass does nothing: the client orders its own requests.
func (c *call) Pass() {}

// OnAnswer has f called when the request is over: whether all of its answer was written before its
// client closed it.
func (c *call) OnAnswer(f func(queued bool)) {
	c.mu.Lock()
	over := c.over
	if !over {
		c.onAnswer = append(c.onAnswer, f)
	}
	c.mu.Unlock()
	if over { // and what the call returns will not be written
		f(false)
	}
}

// OnCancel has f called when the client cancels the call: it closes the request before the answer,
// or in the older era sends a notification.
func (c *call) OnCancel(f func()) {
	c.mu.Lock()
	cancelled := c.cancelled
	if !cancelled {
		c.onCancel = append(c.onCancel, f)
	}
	c.mu.Unlock()
	if cancelled {
		f()
	}
}

// cancel notes that the client has cancelled the call, unless it is answered already, and ends the
// request without an answer. It returns when that is done. A batch is answered all the same.
func (c *call) cancel() {
	c.cancelling.Do(func() {
		if c.batch || !c.answer.cut() {
			return
		}
		c.mu.Lock()
		c.cancelled = true
		waiting := c.onCancel
		c.mu.Unlock()
		for _, f := range waiting {
			f()
		}
		c.seen.cancel()
		c.drop()
	})
}

// begin notes that one more call of the request is handled.
func (c *call) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
}

// end notes that the request is over, and whether its client has closed it.
func (c *call) end(closed bool) {
	if closed {
		c.cancel()
	}
	c.mu.Lock()
	c.over = true
	waiting, answered := c.onAnswer, c.answer.count() == c.begun
	c.mu.Unlock()
	for _, f := range waiting {
		f(answered)
	}
}

// attach returns a request that gives its call to the handlers of its messages, and the name of its
// tenant to the SDK, which lets no other use a session. The SDK has one way for both: what it knows
// of a token. The token itself is not passed on.
func attach(r *http.Request, tenant string, c *call) (with *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+tenant)
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return delivery.Attach(auth.TokenInfo{UserID: tenant, Expiration: time.Now().Add(sessionTime)}, c), nil
	}
	note := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { with = r })
	auth.RequireBearerToken(verify, nil)(note).ServeHTTP(nil, r)
	return with
}

// callOf returns the call that a message came with, or nil.
func callOf(req mcp.Request) *call {
	c, _ := delivery.TicketOf(req.GetExtra()).(*call)
	return c
}

// untilClosed is a middleware that ends the context of a call when its HTTP request is closed, or
// must be answered. The SDK does the former, and in the newer era only. In the older one, nothing of
// the answer could be read any more either. A notification outlives its request, which is answered
// before it is handled.
//
// The SDK ends the context that it gives to the middleware when the client has cancelled the call. It
// would answer the call nevertheless.
func untilClosed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c := callOf(req)
		if c == nil || strings.HasPrefix(method, "notifications/") {
			return next(ctx, method, req)
		}
		c.begin()
		waits, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.closed, cancel)()
		stop := context.AfterFunc(ctx, c.cancel)
		res, err := next(waits, method, req)
		if !stop() {
			c.cancel() // before the SDK answers
		}
		return res, err
	}
}
