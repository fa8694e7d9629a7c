package httpserver

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/serve/metrics"
	"asyncrepl/internal/serve/relay"
)

// An exchange is one HTTP request and what becomes of it. The handlers of its messages receive it as
// their [delivery.Ticket]. Only a batch, which the first version of the protocol allows, has more than
// one call. Calls over HTTP have no order.
type exchange struct {
	client context.Context // done when the client has left
	report func(metrics.Request)
	notes  bool // the answer says in its trailer what the request was

	// Set before the request's messages are handled, if it has any.
	waits context.Context    // done when the calls must return at once
	drop  context.CancelFunc // ends the request
	batch bool

	// writing is held over each write of the answer. Its holder finds that an answer is written or
	// is not.
	writing    sync.Mutex
	cancelling sync.Once

	mu    sync.Mutex
	state state
}

// A state is all that changes while a request is served. Only exchange.update changes it.
type state struct {
	fate     fate
	over     bool // the request has ended
	begun    int  // calls begun
	answers  int  // answers to calls, written in full
	onAnswer []func(queued bool)
	onCancel []func()

	first phase           // of the message that the request is reported with
	seen  metrics.Request // the report of the request
}

// A fate is what has become of a request.
type fate int

const (
	undecided fate = iota
	answered       // an answer was written in full, so that a cancel comes too late
	cancelled      // the client has cancelled the call by a message before an answer
	closed         // the client has closed the request before an answer
)

// A phase is how far a message is handled.
type phase int

const (
	notBegun phase = iota
	begun
	handled
)

var _ delivery.Ticket = (*exchange)(nil)

// update lets f change the state. f must not call what it takes from the state: the callbacks call
// the exchange.
func (x *exchange) update(f func(s *state)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(&x.state)
}

type exchangeKey struct{}

// exchanging returns a handler that serves as h does. Each of its requests has an exchange, which is
// reported at its end.
func (s *Server) exchanging(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		x := &exchange{client: r.Context(), report: s.config.Observe, notes: s.config.Counts != nil}
		x.state.seen = metrics.Request{Time: time.Now(), Method: methodOf(r), Path: s.pathOf(r)}
		w := &countingWriter{ResponseWriter: rw}
		defer x.end(w)
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

// exchangeOf returns the exchange of a request.
func exchangeOf(r *http.Request) *exchange { return r.Context().Value(exchangeKey{}).(*exchange) }

// by notes the caller of the request, and its era.
func (x *exchange) by(who Caller, era string) {
	x.update(func(s *state) { s.seen.Tenant, s.seen.Era = who.Tenant, era })
}

// Pass does nothing: the client orders its own requests.
func (x *exchange) Pass() {}

// OnAnswer has f called when the request is over: whether all of its answer was written before its
// client closed it.
func (x *exchange) OnAnswer(f func(queued bool)) {
	var over bool
	x.update(func(s *state) {
		if over = s.over; !over {
			s.onAnswer = append(s.onAnswer, f)
		}
	})
	if over { // and what the call returns will not be written
		f(false)
	}
}

// OnCancel has f called when the client cancels the call: it closes the request before the answer,
// or in the older era sends a notification.
func (x *exchange) OnCancel(f func()) {
	var given bool
	x.update(func(s *state) {
		if given = s.givenUp(); !given {
			s.onCancel = append(s.onCancel, f)
		}
	})
	if given {
		f()
	}
}

// givenUp reports whether the client wants no answer any more. It then gets none.
func (s *state) givenUp() bool { return s.fate == cancelled || s.fate == closed }

// wantsAnswer reports whether an answer can be written.
func (x *exchange) wantsAnswer() (wants bool) {
	x.update(func(s *state) { wants = !s.givenUp() })
	return wants
}

// wrote notes that one more answer is written in full. The caller holds x.writing.
func (x *exchange) wrote() {
	x.update(func(s *state) {
		s.fate = answered
		s.answers++
	})
}

// cancel notes that the client has cancelled the call, unless it is answered already, and ends the
// request without an answer. It returns when that is done. A batch is answered all the same.
func (x *exchange) cancel() {
	x.cancelling.Do(func() {
		if x.batch || !x.giveUp() {
			return
		}
		var waiting []func()
		x.update(func(s *state) { waiting = s.onCancel })
		for _, f := range waiting {
			f()
		}
		x.drop()
	})
}

// giveUp decides the fate of a request that is not answered yet, and reports whether it did.
func (x *exchange) giveUp() (did bool) {
	x.writing.Lock() // an answer that is just being written decides
	defer x.writing.Unlock()
	x.update(func(s *state) {
		if did = s.fate == undecided; !did {
			return
		}
		if s.fate = cancelled; x.client.Err() != nil {
			s.fate = closed
		}
	})
	return did
}

// end ends the exchange, whose answer w has counted. It is reported, unless its first message is
// still being handled.
func (x *exchange) end(w *countingWriter) {
	if x.drop != nil && x.client.Err() != nil {
		x.cancel()
	}
	var waiting []func(bool)
	var complete, due bool
	var seen metrics.Request
	x.update(func(s *state) {
		s.over = true
		waiting, complete = s.onAnswer, s.answers == s.begun
		s.seen.Duration, s.seen.Status, s.seen.Bytes = time.Since(s.seen.Time), cmp.Or(w.status, s.seen.Status), w.written
		s.seen.Result = x.result(s)
		seen, due = s.seen, s.first != begun
		if x.notes && s.first == handled {
			relay.Note{Method: seen.Method, Tool: seen.Tool, Job: seen.Job, Result: string(seen.Result)}.Set(w.Header())
		}
	})
	for _, f := range waiting {
		f(complete)
	}
	if due {
		x.report(seen)
	}
}

// begin notes that a message of the request is handled.
func (x *exchange) begin(call metrics.Request) {
	x.update(func(s *state) {
		if !isNotification(call.Method) {
			s.begun++
		}
		if s.over { // it is reported
			return
		}
		if s.first != handled && s.seen.Tool == "" {
			s.seen.Method, s.seen.Tool = call.Method, call.Tool
		}
		if s.first == notBegun {
			s.first = begun
		}
	})
}

// finish notes that a message was handled. If the request had another one before, as a batch of the
// older era can, the message is reported on its own.
func (x *exchange) finish(call metrics.Request) {
	due := false
	x.update(func(s *state) {
		if s.over && s.first != begun {
			return
		}
		if s.first == handled || s.seen.Tool != call.Tool {
			call.Tenant, call.Era, call.Path, call.Status = s.seen.Tenant, s.seen.Era, s.seen.Path, http.StatusOK
			due = true
			return
		}
		s.first, s.seen.Job = handled, call.Job
		switch {
		case s.over && s.seen.Result != metrics.OK: // the client had no answer
		case !s.over && x.client.Err() != nil:
			s.seen.Result = metrics.Closed
		default:
			s.seen.Result = call.Result
		}
		call, due = s.seen, s.over
	})
	if due {
		x.report(call)
	}
}

// attach returns a request that gives its exchange to the handlers of its messages, and the name of
// its tenant to the SDK, which lets no other use a session. The SDK has one way for both: what it
// knows of a token. The token itself is not passed on.
func (x *exchange) attach(r *http.Request, tenant string) (with *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+tenant)
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return delivery.Attach(auth.TokenInfo{UserID: tenant, Expiration: time.Now().Add(sessionTime)}, x), nil
	}
	note := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { with = r })
	auth.RequireBearerToken(verify, nil)(note).ServeHTTP(nil, r)
	return with
}

// handling is a middleware that notes in its exchange how a message is handled.
func (s *Server) handling(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		x, ok := delivery.TicketOf(req.GetExtra()).(*exchange)
		if !ok {
			return next(ctx, method, req)
		}
		call := metrics.Request{Time: time.Now(), Method: method, Tool: s.toolOf(req)}
		x.begin(call)
		res, err := x.handle(next, ctx, method, req)
		call.Duration = time.Since(call.Time)
		call.Result, call.Job = outcome(res, err)
		x.finish(call)
		return res, err
	}
}

// handle calls the handler of a message. It ends the context of a call when its HTTP request is
// closed, or must be answered. The SDK does the former, and in the newer era only. In the older one,
// nothing of the answer could be read any more either. A notification outlives its request, which is
// answered before it is handled.
//
// The SDK ends the context that it gives to a middleware when the client has cancelled the call. It
// would answer the call nevertheless.
func (x *exchange) handle(next mcp.MethodHandler, ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	if isNotification(method) {
		return next(ctx, method, req)
	}
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.waits, cancel)()
	stop := context.AfterFunc(ctx, x.cancel)
	res, err := next(waits, method, req)
	if !stop() {
		x.cancel() // before the SDK answers
	}
	return res, err
}

func isNotification(method string) bool { return strings.HasPrefix(method, "notifications/") }
