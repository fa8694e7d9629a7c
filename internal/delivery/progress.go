package delivery

import (
	"context"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// While a call waits, a client that gave a progress token is sent its state: first after a second,
// then every two. A client that does not read is sent no more until it does, and its call is
// answered all the same. Nothing is sent after the answer.

// defaultProgress is how long a call waits before its first progress notification.
const defaultProgress = time.Second

// A Progress reports to the client of one call while that waits. Nil reports nothing.
type Progress struct {
	token  any
	first  time.Duration
	notify func(context.Context, *mcp.ProgressNotificationParams) error
}

// NewProgress returns the progress of a call whose first notification comes after first; 0 is a
// second. It is nil if the client gave no token, or one that could not be sent back as it came.
func NewProgress(req *mcp.CallToolRequest, first time.Duration) *Progress {
	token := req.Params.GetProgressToken()
	switch t := token.(type) {
	case string:
	case float64:
		const exact = 1 << 53
		if t != math.Trunc(t) || math.Abs(t) >= exact {
			return nil
		}
		token = int64(t)
	default:
		return nil
	}
	if first == 0 {
		first = defaultProgress
	}
	return &Progress{token: token, first: first, notify: req.Session.NotifyProgress}
}

// Start sends line, first and then repeatedly, until stop is called; stop waits for a notification
// that is being sent. most is the longest that the call waits, or 0 if that is unknown.
func (p *Progress) Start(ctx context.Context, most time.Duration, line func() string) (stop func()) {
	if p == nil || most > 0 && most <= p.first {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	begun, done := time.Now(), make(chan struct{})
	timer := time.AfterFunc(p.first, func() { // owned by the call, which calls stop; ends with ctx
		defer close(done)
		next := time.NewTicker(2 * p.first)
		defer next.Stop()
		for p.send(ctx, time.Since(begun), most, line()) {
			select {
			case <-next.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}

// send sends one notification and reports whether another may follow. Progress is in seconds. It
// has no total, which clients would show as a share of the work done: the wait measures no work.
func (p *Progress) send(ctx context.Context, waited, most time.Duration, line string) bool {
	if most > 0 && waited >= most || ctx.Err() != nil {
		return false
	}
	return p.notify(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: p.token,
		Progress:      waited.Seconds(),
		Message:       line,
	}) == nil
}
