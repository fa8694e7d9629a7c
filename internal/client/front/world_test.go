package front

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/stdio"
	"asyncrepl/internal/test/must"
)

// A world is a front with its client, and the engines that it attaches. They are servers of the SDK
// at the other end of socket pairs.
type world struct {
	t    testing.TB
	in   io.WriteCloser
	out  io.ReadCloser
	read *bufio.Reader

	pair   func(testing.TB) (front, engine Conn)
	cut    context.CancelFunc // plays a signal
	served chan error         // the result of Serve
	lost   atomic.Bool        // ReaderGone reports it
	calls  *calls
	engine func(Conn) // plays the engines; nil: they are servers

	// Guarded by mu.
	mu      sync.Mutex
	engines []*engine // in the order in which they were attached
	refuse  error     // Attach returns it; nil: it attaches an engine
}

// calls are those of the tool gate, of all engines.
type calls struct {
	entered chan string   // the arguments of calls that have begun
	open    chan struct{} // lets them end
	hold    chan struct{} // engines wait until it is closed before they answer at once; nil: they don't
}

// An engine is the other end of a connection.
type engine struct {
	conn Conn
	cut  context.CancelFunc // answers calls in flight at once
	over chan struct{}      // closed when its server has ended

	mu    sync.Mutex
	lines []string // the engine got them
}

// newWorld returns a front in a synctest bubble or outside, over connections of the kind that pair
// makes.
func newWorld(t testing.TB, pair func(testing.TB) (front, engine Conn), stream func(testing.TB) (client, front io.ReadWriteCloser)) *world {
	t.Helper()
	client, ours := stream(t)
	w := &world{
		t: t, in: client, out: client, read: bufio.NewReader(client), pair: pair, served: make(chan error, 1),
		calls: &calls{entered: make(chan string, 100), open: make(chan struct{})},
	}
	ctx, cut := context.WithCancel(context.Background())
	w.cut = cut
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	go func() { // owned by the test; ends when Cleanup closes the streams
		w.served <- Serve(ctx, Config{
			Stream: ours, Server: w.calls.server(context.Background(), "handshake"), Alone: []string{"ping", "server/discover", "tools/list", "resources/templates/list"}, Attach: w.attach, Log: log,
			ReaderGone: w.lost.Load,
		})
	}()
	t.Cleanup(func() {
		cut()
		client.Close()
		<-w.served
		for _, e := range w.all() {
			<-e.over
		}
	})
	return w
}

// start returns a front over pipes and sockets of the kernel.
func start(t testing.TB) *world { return newWorld(t, sockPair, pipes) }

// attach is Config.Attach.
func (w *world) attach(context.Context) (Engine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return Engine{}, w.refuse
	}
	ours, theirs := w.pair(w.t)
	e := &engine{conn: theirs, over: make(chan struct{})}
	if w.engine != nil {
		go w.engine(theirs) // ends with the connection
		return Engine{ours, func() string { return "" }}, nil
	}
	w.engines = append(w.engines, e)
	e.serve(w.calls, fmt.Sprint("engine ", len(w.engines)))
	return Engine{ours, func() string { return "signal: killed" }}, nil
}

// serve serves the connection as an engine does: it ends when the front closes it, and answers
// calls at once after the goodbye that asks for that.
func (e *engine) serve(calls *calls, name string) {
	ctx, cut := context.WithCancel(context.Background())
	e.cut = cut
	server := calls.server(ctx, name)
	in, feed := io.Pipe()
	go func() { // owned by the engine; ends with the connection
		defer feed.Close()
		defer cut()
		for r := bufio.NewReader(e.conn); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			e.mu.Lock()
			e.lines = append(e.lines, strings.TrimSuffix(string(line), "\n"))
			e.mu.Unlock()
			switch string(line) {
			case sockets.Goodbye + "\n":
			case sockets.GoodbyeNow + "\n":
				if calls.hold != nil {
					<-calls.hold
				}
				cut()
			default:
				feed.Write(line)
			}
		}
	}()
	go func() { // owned by the engine; ends with the connection
		defer close(e.over)
		session, err := server.Connect(context.Background(), &stdio.Transport{Stream: stream{in, e.conn}}, nil)
		if err == nil {
			session.Wait()
		}
	}()
}

// got returns the lines that the engine got.
func (e *engine) got() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lines
}

// goodbyes returns the goodbyes that the engine got.
func (e *engine) goodbyes() []string {
	return slices.DeleteFunc(slices.Clone(e.got()), func(line string) bool { return !strings.Contains(line, "goodbye") })
}

// said fails the test if the engine got other goodbyes.
func (e *engine) said(t testing.TB, want ...string) {
	t.Helper()
	<-e.over
	if got := e.goodbyes(); !slices.Equal(got, want) {
		t.Errorf("the engine got %s", got)
	}
}

// all returns the engines that were attached.
func (w *world) all() []*engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engines
}

// last returns the engine that was attached last.
func (w *world) last() *engine {
	w.t.Helper()
	all := w.all()
	if len(all) == 0 {
		w.t.Fatal("no engine is attached")
	}
	return all[len(all)-1]
}

// server returns a server whose tools are echo; who, which names the server and its client; large,
// whose answer has as many bytes as its argument says; and gate, which waits until the test opens
// it, ctx is done or its call is cancelled.
func (c *calls) server(ctx context.Context, name string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	})
	add := func(name string, h func(context.Context, *mcp.CallToolRequest) string) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: h(ctx, r)}}}, nil
		})
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) string { return string(r.Params.Arguments) })
	add("who", func(_ context.Context, r *mcp.CallToolRequest) string {
		return name + " of " + r.Session.InitializeParams().ClientInfo.Name
	})
	add("large", func(_ context.Context, r *mcp.CallToolRequest) string {
		var a struct{ Bytes int }
		json.Unmarshal(r.Params.Arguments, &a)
		return strings.Repeat("x", a.Bytes)
	})
	add("change", func(context.Context, *mcp.CallToolRequest) string {
		s.RemoveTools("echo")
		return "changed"
	})
	add("gate", func(call context.Context, r *mcp.CallToolRequest) string {
		c.entered <- string(r.Params.Arguments)
		select {
		case <-c.open:
			return "opened"
		case <-ctx.Done():
			return "current status"
		case <-call.Done():
			return "never to be seen"
		}
	})
	return s
}

// stream joins two ends.
type stream struct {
	io.ReadCloser
	io.WriteCloser
}

func (s stream) Close() error { return errors.Join(s.ReadCloser.Close(), s.WriteCloser.Close()) }

// pipes returns the ends of two pipes of the kernel, as the standard streams of a server are.
func pipes(t testing.TB) (client, front io.ReadWriteCloser) {
	r1, w1 := must.Get2(os.Pipe())(t)
	r2, w2 := must.Get2(os.Pipe())(t)
	return stream{r1, w2}, stream{r2, w1}
}

// sockPair returns the ends of a socket pair, as a front has with the engine that it starts.
func sockPair(t testing.TB) (front, engine Conn) {
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0))(t)
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		ends[i] = must.Get(net.FileConn(f))(t).(*net.UnixConn)
		f.Close()
	}
	return ends[0], ends[1]
}

// memory and memoryConn are pipes and sockets for bubbles, where waiting for the kernel does not
// count as waiting.
func memory(testing.TB) (client, front io.ReadWriteCloser) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return stream{r1, w2}, stream{r2, w1}
}

func memoryConn(testing.TB) (front, engine Conn) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	return inMemory{nil, r1, w2}, inMemory{nil, r2, w1}
}

type inMemory struct {
	net.Conn // nil: deadlines and addresses are not used
	r        *io.PipeReader
	w        *io.PipeWriter
}

func (c inMemory) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c inMemory) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c inMemory) CloseWrite() error           { return c.w.Close() }
func (c inMemory) Close() error                { return errors.Join(c.w.Close(), c.r.Close()) }

// send sends lines as the client.
func (w *world) send(lines ...string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, strings.Join(lines, "\n")+"\n"); err != nil {
		w.t.Fatal(err)
	}
}

// leave ends the client's input.
func (w *world) leave() { w.in.(stream).WriteCloser.Close() }

// line returns the next line that the client gets.
func (w *world) line() string {
	w.t.Helper()
	line, err := w.read.ReadString('\n')
	if err != nil {
		w.t.Fatalf("%v after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

// rest returns the lines until the front closes its output.
func (w *world) rest() (lines []string) {
	w.t.Helper()
	for line := range strings.Lines(string(must.Get(io.ReadAll(w.read))(w.t))) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// is compares the next lines with the wanted ones.
func (w *world) is(want ...string) {
	w.t.Helper()
	for _, line := range want {
		if got := w.line(); got != line {
			w.t.Errorf("got  %.300s\nwant %.300s", got, line)
		}
	}
}

// initialize opens the connection in the older protocol.
func (w *world) initialize() {
	w.t.Helper()
	w.send(initialize)
	if got := w.line(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"init","result":{`) {
		w.t.Fatal(got)
	}
	w.send(initialized)
}

const (
	initialize  = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"me","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	meta        = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"me","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

func toolCall(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"id":` + id + `}}}`
}

func answered(id, text string) string {
	encoded := must.Get(json.Marshal(text))
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":` + string(encoded(nil)) + `}]}}`
}

func cancelled(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

const killed = "The server died during this call (signal: killed), with its running jobs and its variables. The next call starts it again; list_jobs then shows what became of the jobs."

func failed(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + killed + `"}],"isError":true}}`
}

// idOf returns the id of a line.
func idOf(t testing.TB, line string) string {
	t.Helper()
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v: %.100q", err, line)
	}
	return string(bytes.TrimSpace(m.ID))
}
