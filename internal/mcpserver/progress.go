package mcpserver

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// While a call waits, a client that gave a progress token is told how things
// stand: first after a second, then every two. A client that does not read what
// it is told is told no more until it does, and its call is answered all the
// same; nothing is told behind an answer.

// defaultProgress is how long a call waits before its client is first told.
const defaultProgress = time.Second

// messageMax is how many characters one message has.
const messageMax = 200

// A teller tells the client of one call. Nil tells nobody.
type teller struct {
	token  any
	first  time.Duration
	notify func(context.Context, *mcp.ProgressNotificationParams) error
}

// newTeller returns the teller of a call, nil for a client that gave no token or
// one that could not be given back as it came.
func (c *conn) newTeller(req *mcp.CallToolRequest) *teller {
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
	first := c.Progress
	if first == 0 {
		first = defaultProgress
	}
	return &teller{token: token, first: first, notify: req.Session.NotifyProgress}
}

// start tells what line says, until stop is called, which waits for what is being
// told. Total is how long the call will wait at most; 0: not known.
func (t *teller) start(ctx context.Context, total time.Duration, line func() string) (stop func()) {
	if t == nil || total > 0 && total <= t.first {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	begun, done := time.Now(), make(chan struct{})
	timer := time.AfterFunc(t.first, func() { // owned by the call, which calls stop; ends with ctx
		defer close(done)
		next := time.NewTicker(2 * t.first)
		defer next.Stop()
		for t.tell(ctx, time.Since(begun), total, line()) {
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

// tell sends one notification and reports whether there may be another. The
// progress is in seconds.
func (t *teller) tell(ctx context.Context, waited, total time.Duration, line string) bool {
	if total > 0 && waited >= total || ctx.Err() != nil {
		return false
	}
	return t.notify(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: t.token,
		Progress:      waited.Seconds(),
		Total:         total.Seconds(),
		Message:       line,
	}) == nil
}

// progress says in one line how a job stands.
func (rp *reporter) progress(j *jobs.Job) string {
	info := j.Info()
	s := statusText(info)
	if info.Cancelling != "" {
		s += ", cancelling: " + string(info.Cancelling)
	}
	if !info.Started.IsZero() {
		s += ", " + rp.elapsed(info)
	}
	if last := lastLine(j.Log()); last != "" {
		s += ": " + last
	}
	return view.Line(s, messageMax)
}

// progressOf says how several jobs stand, and what the one that wrote last wrote.
func (rp *reporter) progressOf(all []*jobs.Job) string {
	ended := 0
	var newest *jobs.Job
	var at time.Time
	for _, j := range all {
		info := j.Info()
		if info.Status.Final() {
			ended++
		} else if newest == nil || info.LastOutput.After(at) {
			newest, at = j, info.LastOutput
		}
	}
	s := fmt.Sprintf("%d of %d have ended", ended, len(all))
	if newest != nil {
		s += "; " + newest.ID() + " " + rp.progress(newest)
	}
	return view.Line(s, messageMax)
}

// lastLineLook is how many bytes are looked at for a job's last line.
const lastLineLook = 4 << 10

// lastLine is the last line of output that is not blank, of the stream that was
// written to last.
func lastLine(log *jobs.Log) string {
	end := log.Stat().End
	w := read(log, max(0, end-lastLineLook), end)
	if len(w.Spans) == 0 {
		return ""
	}
	var b []byte
	for _, s := range w.Spans {
		if s.Section == w.Spans[len(w.Spans)-1].Section {
			b = append(b, s.Data...)
		}
	}
	if w.Cursor > 0 {
		b = b[view.Begin(b, 0):]
	}
	lines := strings.Split(strings.TrimSpace(view.Text(b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
