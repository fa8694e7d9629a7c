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

// Start sends the note, first and then repeatedly, until stop is called; stop waits for a
// notification that is being sent. most is the longest that the call waits, or 0 if that is unknown.
func (p *Progress) Start(ctx context.Context, most time.Duration, note func() Note) (stop func()) {
	if p == nil || most > 0 && most <= p.first {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	begun, done := time.Now(), make(chan struct{})
	timer := time.AfterFunc(p.first, func() { // owned by the call, which calls stop; ends with ctx
		defer close(done)
		next := time.NewTicker(2 * p.first)
		defer next.Stop()
		last := 0.0
		for p.send(ctx, time.Since(begun), most, note(), &last) {
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

// send sends one notification and reports whether another may follow. last is the progress sent
// last.
func (p *Progress) send(ctx context.Context, waited, most time.Duration, n Note, last *float64) bool {
	if most > 0 && waited >= most || ctx.Err() != nil {
		return false
	}
	params := &mcp.ProgressNotificationParams{ProgressToken: p.token, Message: n.Line}
	params.Progress, params.Total = after(*last, waited, n)
	*last = params.Progress
	return p.notify(ctx, params) == nil
}

// leastStep is what progress increases by at least.
const leastStep = 0.001

// after returns the progress to send after last, and its total, both from the job's progress
// bar. If the job shows no bar, progress is the time waited, in seconds, and has no total, which
// clients would show as a share of the work done. Progress must always increase:
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress. So if the bar
// stands still, or another one has begun, both are scaled: clients show the share of the bar.
func after(last float64, waited time.Duration, n Note) (progress, total float64) {
	if n.Total == 0 || n.Done == 0 {
		return max(waited.Seconds(), last+leastStep), 0
	}
	if n.Done >= last+leastStep {
		return n.Done, n.Total
	}
	progress = last + leastStep
	return progress, progress * (n.Total / n.Done)
}
