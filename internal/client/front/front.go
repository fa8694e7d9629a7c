package front

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/mcp/stdio"
)

// A Config is what a front is made of.
type Config struct {
	Stream io.ReadWriteCloser // the client: lines of MCP
	Server *mcp.Server        // answers what needs no engine
	Alone  []string           // the methods that it answers without one
	// Attach takes over an engine or starts one. The error is shown to the client.
	Attach func(context.Context) (Engine, error)
	// ReaderGone reports whether the client's end of the output is closed. It is asked when the
	// input has ended, and can wait for a moment: a client that is killed closes one after the
	// other.
	ReaderGone func() bool
	Log        *slog.Logger
}

// An Engine is a connection to an engine, over which the hello has been answered.
type Engine struct {
	Conn
	// Ended returns how the engine's process ended, after its end of the connection was closed, or
	// "" if that can't be known.
	Ended func() string
}

// A Conn is the connection of an Engine.
type Conn interface {
	net.Conn
	CloseWrite() error
}

const (
	// deathsAllowed is the number of engines that can die within refusalTime. The calls of the
	// refusalTime after it are refused, because an engine that dies at once would cost every call
	// a start.
	deathsAllowed = 3
	refusalTime   = 10 * time.Second
)

// endTime bounds how long the front waits for the end of an engine, which can hang, once all calls are
// answered. The engine then ends after it.
const endTime = 5 * time.Second

// A front is the connection of the client. It gives the Server what is for it, and the engine the
// rest.
type front struct {
	mcp.Connection // the client's stream; set by Connect
	Config
	ctx   context.Context // done when a signal has come
	ended func()          // runs end once

	connected chan struct{} // closed when Connection is set

	// Guarded by mu.
	mu           sync.Mutex
	engine       *link // nil: none is attached
	leaving      bool  // no engine is attached any more
	open         map[string]call
	sent         int                            // the number of requests that engines were sent
	initialize   json.RawMessage                // the params of the client's initialize; nil: there was none, or it failed
	initializeID jsonrpc.ID                     // its id, until it is answered
	listens      map[jsonrpc.ID]json.RawMessage // the params of the open subscriptions
	listed       bool                           // an older client has listed resources, which subscribes it to changes
	deaths       []time.Time                    // the last ones
	refused      time.Time                      // calls are refused before it
	why          string                         // how the last engine ended
}

// A call is a request that an engine has to answer.
type call struct {
	id     jsonrpc.ID // the client's
	method string
}

// Serve serves a client until it has left and the engine has closed the connection. When ctx is
// done the client leaves, and calls in flight are answered at once.
func Serve(ctx context.Context, c Config) error {
	f := &front{Config: c, ctx: ctx, connected: make(chan struct{}), open: make(map[string]call), listens: make(map[jsonrpc.ID]json.RawMessage)}
	f.ended = sync.OnceFunc(f.end)
	defer context.AfterFunc(ctx, f.cut)() // ends when the engine knows it
	session, err := c.Server.Connect(context.WithoutCancel(ctx), f, nil)
	if err != nil {
		return err
	}
	err = session.Wait()
	f.ended() // the connection can fail without an end of input
	if e := f.leave(); e != nil {
		e.CloseWrite()
		select {
		case <-e.gone:
		case <-time.After(endTime):
		}
	}
	return err
}

// Connect implements mcp.Transport.
func (f *front) Connect(ctx context.Context) (_ mcp.Connection, err error) {
	client := &stdio.Transport{Stream: f.Stream, Cut: f.ctx, Divert: f.divert, End: f.ended, Leave: f.cut, Log: f.Log}
	f.Connection, err = client.Connect(ctx)
	close(f.connected)
	return f, err
}

// divert sends a message of the client to the engine if it is for an engine, and reports whether it
// is not for the Server.
func (f *front) divert(m jsonrpc.Message) bool {
	<-f.connected // the answer to a call goes there
	r, ok := m.(*jsonrpc.Request)
	switch {
	case !ok: // an answer, and nothing asks the client
		return true
	case r.Method == "notifications/cancelled":
		f.cancel(r)
	case !r.IsCall():
		f.send(request(nil, r.Method, r.Params))
	case r.Method == "initialize":
		f.begin(r)
	case r.Method == "subscriptions/listen":
		f.listen(r)
	case !slices.Contains(f.Alone, r.Method):
		f.forward(r)
		return true
	}
	return false
}

// Write implements mcp.Connection. It writes what the Server says.
func (f *front) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		f.answered(r)
	}
	return f.Connection.Write(ctx, m)
}

// begin notes an initialize, which the Server will answer. An engine gets it, too, so that a call
// that the client sends before it has the answer finds the connection initialized.
func (f *front) begin(r *jsonrpc.Request) {
	f.mu.Lock()
	if f.initialize == nil { // a repeated one changes nothing
		f.initialize, f.initializeID = r.Params, r.ID
	}
	key := f.key()
	f.mu.Unlock()
	f.send(request(key, r.Method, r.Params))
}

// answered notes that the Server has answered a call. A subscription is over then.
func (f *front) answered(r *jsonrpc.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.listens, r.ID)
	if r.ID == f.initializeID {
		if f.initializeID = (jsonrpc.ID{}); r.Error != nil {
			f.initialize = nil
		}
	}
}

// listen notes a subscription. The Server acknowledges it; engines notify the client.
func (f *front) listen(r *jsonrpc.Request) {
	f.mu.Lock()
	f.listens[r.ID] = r.Params
	f.mu.Unlock()
	f.send(request(r.ID.Raw(), r.Method, r.Params))
}

// send sends lines to the engine if one is attached.
func (f *front) send(lines net.Buffers) {
	f.mu.Lock()
	e := f.engine
	f.mu.Unlock()
	if e != nil {
		e.send(lines)
	}
}

// cancel passes on that the client has cancelled a call. The call gets no answer any more.
func (f *front) cancel(r *jsonrpc.Request) {
	var params struct{ RequestID any }
	json.Unmarshal(r.Params, &params) // it was checked by the transport
	id, err := jsonrpc.MakeID(params.RequestID)
	if err != nil {
		return
	}
	f.mu.Lock()
	key := ""
	for k, c := range f.open {
		if c.id == id {
			key = k
			delete(f.open, k)
			break
		}
	}
	_, listens := f.listens[id]
	delete(f.listens, id)
	f.mu.Unlock()
	switch {
	case listens:
		f.send(request(nil, r.Method, r.Params))
	case key != "":
		f.send(request(nil, r.Method, json.RawMessage(`{"requestId":"`+key+`"}`)))
		f.Connection.Write(over, &jsonrpc.Response{ID: id}) // frees the id; a cancelled call is not answered
	}
}

// over is a context that is done. A write with it waits for nothing.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// forward sends a call to an engine, and attaches one if there is none.
func (f *front) forward(r *jsonrpc.Request) {
	for {
		e, reason := f.attached()
		if e == nil {
			go f.fail([]call{{r.ID, r.Method}}, reason) // owned by the connection; ends when the answer is queued, or the client has left
			return
		}
		f.mu.Lock()
		if f.engine != e { // it has ended since
			f.mu.Unlock()
			continue
		}
		key := f.key()
		f.open[key] = call{r.ID, r.Method}
		f.listed = f.listed || r.Method == "resources/list"
		f.mu.Unlock()
		e.send(request(key, r.Method, r.Params)) // if it fails, the engine's death answers the call
		return
	}
}

// key returns the next id of a request to an engine. The caller holds mu.
func (f *front) key() string {
	f.sent++
	return "front-" + strconv.Itoa(f.sent)
}

// ending answers calls that no engine answers because the client leaves.
const ending = "The server is ending."

// attached returns the engine, or why there is none. Only divert calls it.
func (f *front) attached() (e *link, reason string) {
	f.mu.Lock()
	e, leaving, refused, why := f.engine, f.leaving, f.refused, f.why
	f.mu.Unlock()
	switch {
	case leaving:
		return nil, ending
	case e != nil:
		return e, ""
	case time.Now().Before(refused):
		return nil, fmt.Sprintf("The server died %d times within %v%s. Calls are refused until %s; then the next one starts it again.",
			deathsAllowed, refusalTime, why, refused.Format(time.TimeOnly))
	}
	conn, err := f.Attach(f.ctx)
	if err != nil && f.ctx.Err() != nil {
		return nil, ending
	}
	if err != nil {
		f.Log.Warn("no engine could be started", "error", err)
		return nil, fmt.Sprintf("The server could not be started: %v", err)
	}
	e = &link{Engine: conn, gone: make(chan struct{})}
	f.mu.Lock()
	if f.leaving { // a signal has come meanwhile
		f.mu.Unlock()
		e.cut()
		e.Close()
		return nil, ending
	}
	f.engine = e
	opening := f.opening()
	f.mu.Unlock()
	go f.follow(e) // owned by Serve; ends with the connection to the engine
	e.send(opening)
	return e, ""
}

// opening returns what an engine has to know of the connection before its first call. Its answers
// are dropped, because the client did not ask this engine. The caller holds mu.
func (f *front) opening() (lines net.Buffers) {
	own := func(method string, params json.RawMessage) {
		lines = append(lines, request(f.key(), method, params)...)
	}
	if f.initialize != nil {
		own("initialize", f.initialize)
		lines = append(lines, request(nil, "notifications/initialized", nil)...)
	}
	for id, params := range f.listens {
		lines = append(lines, request(id.Raw(), "subscriptions/listen", params)...)
	}
	if f.listed && f.initialize != nil {
		own("resources/list", nil)
	}
	return lines
}

// end says goodbye when the client's input has ended, unless the client is lost.
func (f *front) end() {
	e := f.leave()
	switch {
	case e == nil:
	case f.ctx.Err() != nil:
		e.cut()
	case f.ReaderGone():
		e.Close()
	default:
		e.goodbye()
	}
}

// leave attaches no further engine, and returns the one that is attached.
func (f *front) leave() *link {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = true
	return f.engine
}

// cut says goodbye, and has the engine answer the calls in flight at once.
func (f *front) cut() {
	if e := f.leave(); e != nil {
		e.cut()
	}
}

// A toolError is the result of a call of a tool that failed. The type of the SDK can't set
// ResultType.
type toolError struct {
	Content    []mcp.Content `json:"content"`
	IsError    bool          `json:"isError"`
	ResultType string        `json:"resultType,omitempty"` // only the newer protocol has it
}

// fail answers calls that no engine will answer. Those of tools get the error of a tool, which a
// model reads.
func (f *front) fail(calls []call, reason string) {
	f.mu.Lock()
	newer := f.initialize == nil
	f.mu.Unlock()
	for _, c := range calls {
		r := &jsonrpc.Response{ID: c.id}
		if c.method == "tools/call" {
			result := toolError{Content: []mcp.Content{&mcp.TextContent{Text: reason}}, IsError: true}
			if newer {
				result.ResultType = "complete"
			}
			r.Result = rawjson.Of(result)
		} else {
			r.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: reason}
		}
		f.Connection.Write(context.Background(), r) // an error means that the client has left
	}
}
