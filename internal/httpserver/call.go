package httpserver

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call is the ticket of the calls in one HTTP request; see package delivery. Only a request of an
// old version of the protocol has more than one call. Calls over HTTP have no order.
type call struct {
	closed context.Context // done when the request is over or must be answered, or its client has closed it
	seen   *observation    // of the request; nil: nobody wants to know

	mu       sync.Mutex
	over     bool // the request is over
	answered bool // with its answer
	onAnswer []func(queued bool)
}

// callKey is the key of the call in the TokenInfo.Extra of a request; package delivery names it too.
const callKey = "async-repl/call"

// Pass does nothing: the client orders its own requests.
func (c *call) Pass() {}

// OnAnswer has f called when the request is over.
func (c *call) OnAnswer(f func(queued bool)) {
	c.mu.Lock()
	over, answered := c.over, c.answered
	if !over {
		c.onAnswer = append(c.onAnswer, f)
	}
	c.mu.Unlock()
	if over {
		f(answered)
	}
}

// OnCancel does nothing: a client that cancels a call closes its request, or notifies the SDK.
func (c *call) OnCancel(func()) {}

// end notes that the request is over, and whether all of its answer was written.
func (c *call) end(answered bool) {
	c.mu.Lock()
	c.over, c.answered = true, answered
	waiting := c.onAnswer
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
		return &auth.TokenInfo{UserID: tenant, Expiration: time.Now().Add(sessionTime), Extra: map[string]any{callKey: c}}, nil
	}
	note := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { with = r })
	auth.RequireBearerToken(verify, nil)(note).ServeHTTP(nil, r)
	return with
}

// callOf returns the call that a message came with, or nil.
func callOf(req mcp.Request) *call {
	x := req.GetExtra()
	if x == nil || x.TokenInfo == nil {
		return nil
	}
	c, _ := x.TokenInfo.Extra[callKey].(*call)
	return c
}

// untilClosed is a middleware that ends the context of a call when its HTTP request is closed, or
// must be answered. The SDK does the former, and in the newer era only. In the older one, nothing of
// the answer could be read any more either. A notification outlives its request, which is answered
// before it is handled.
func untilClosed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if c := callOf(req); c != nil && !strings.HasPrefix(method, "notifications/") {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(c.closed, cancel)()
		}
		return next(ctx, method, req)
	}
}
