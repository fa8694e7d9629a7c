package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"asyncrepl/jobs/jobstest"
)

// A gate is a tool that waits for the test, for its call to be cancelled, or for the order to
// leave.
type gate struct {
	entered chan string // the arguments of calls that have begun
	open    chan struct{}
	left    chan error // why calls were cancelled
	leave   context.Context
	order   context.CancelFunc // of leave
}

func newGate() *gate {
	g := &gate{entered: make(chan string), open: make(chan struct{}), left: make(chan error, 9)}
	g.leave, g.order = context.WithCancel(context.Background())
	return g
}

func textResult(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// server has three tools: gate, echo, and large, which answers with 256 KiB.
func (g *gate) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
	add := func(name string, h mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return textResult(string(r.Params.Arguments)), nil
	})
	large := textResult(strings.Repeat("x", 256<<10))
	add("large", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return large, nil })
	add("gate", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		g.entered <- string(r.Params.Arguments)
		select {
		case <-g.open:
			return textResult("opened"), nil
		case <-g.leave.Done():
			return textResult("current status"), nil
		case <-ctx.Done():
			g.left <- context.Cause(ctx)
			return textResult("never to be seen"), nil
		}
	})
	return s
}

// serve connects a client to a server over a Transport and makes its first call.
func (g *gate) serve(t testing.TB, tr Transport) (*peer, *mcp.ServerSession) {
	t.Helper()
	p, stream := newPeer(t)
	tr.Stream = stream
	tr.Leave = g.order
	ss, err := g.server().Connect(context.Background(), &tr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.in.Close(); p.out.Close(); ss.Wait() })
	p.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	p.line()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p, ss
}

func toolCall(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"id":` + id + `}}}`
}

func answered(id, text string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":` + string(appendJSON(nil, text)) + `}]}}`
}

// ended fails if the session does not end, or not as at an end of input.
func ended(t *testing.T, ss *mcp.ServerSession) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- ss.Wait() }() // owned by the test; ends with the session
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("session ended with %v", err)
		}
	case <-time.After(jobstest.Patience):
		t.Fatal("the session did not end")
	}
}

func TestCancelledIsNotAnswered(t *testing.T) {
	for _, id := range []string{"7", "7.0", "-9007199254740991", `"seven"`, `"\u0000\ud800"`} {
		t.Run(id, func(t *testing.T) {
			g := newGate()
			p, ss := g.serve(t, Transport{})
			p.send(toolCall(id, "gate"), toolCall("2", "gate"))
			for range 2 {
				<-g.entered
			}
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"enough"}}`)
			if err := <-g.left; err != context.Canceled {
				t.Errorf("cancelled for %v", err)
			}
			close(g.open)
			if got := p.line(); got != answered("2", "opened") {
				t.Errorf("got %s", got)
			}
			// Its id is free again, and it is not waited for.
			p.send(toolCall("3", "echo"))
			if got := p.line(); got != answered("3", `{"id":3}`) {
				t.Errorf("got %s", got)
			}
			p.in.Close()
			if got := p.rest(); got[0] != "" {
				t.Errorf("got %s", got)
			}
			ended(t, ss)
		})
	}
}

func TestAnswersAtEndOfInput(t *testing.T) {
	g := newGate()
	p, stream := newPeer(t)
	tr := &Transport{Stream: stream, Leave: g.order, Drain: time.Hour}
	var c *conn
	ss, err := g.server().Connect(context.Background(), connecting(func(context.Context) (mcp.Connection, error) {
		c = tr.connect()
		return c, nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	p.line()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, toolCall("1", "gate"), toolCall("2", "echo"))
	p.in.Close()
	<-g.entered
	<-c.eof
	close(g.open)
	got := p.rest()
	if len(got) != 2 || !strings.Contains(strings.Join(got, "\n"), answered("1", "opened")) {
		t.Errorf("got %s", got)
	}
	ended(t, ss)
}

// Once input has ended and the connection is cut, in whichever order, nothing more is written.
func TestNothingIsWrittenAfterTheEndAndACut(t *testing.T) {
	for name, ends := range map[string]func(p *peer, cut func()){
		"end first": func(p *peer, cut func()) { p.in.Close(); cut() },
		"cut first": func(p *peer, cut func()) { cut(); p.in.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				cut, cancel := context.WithCancel(context.Background())
				defer cancel()
				stays := make(chan struct{})
				leave := g.order
				g.order = func() { <-stays; leave() } // the calls are not answered before both have come
				p, ss := g.serve(t, Transport{Cut: cut})
				p.send(toolCall("1", "gate"), toolCall("2", "gate"))
				for range 2 {
					<-g.entered
				}
				ends(p, cancel)
				synctest.Wait()
				close(stays)
				if b, err := io.ReadAll(p.read); len(b) > 0 || err != nil {
					t.Errorf("written: %q, %v", b, err)
				}
				ended(t, ss)
			})
		})
	}
}

// A tardy context never runs what waits for it by context.AfterFunc, which can run later than
// what receives from Done.
type tardy struct {
	context.Context
	done chan struct{}
}

func (c tardy) Done() <-chan struct{} { return c.done }

func (c tardy) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

func (tardy) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

// Answers of handlers that return as soon as Leave is called are not written either.
func TestLeavingAnswersAreNotWrittenAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		cut := tardy{context.Background(), make(chan struct{})}
		p, ss := g.serve(t, Transport{Cut: cut})
		p.send(toolCall("1", "gate"))
		<-g.entered
		p.in.Close()
		synctest.Wait()
		close(cut.done)
		if b, err := io.ReadAll(p.read); len(b) > 0 || err != nil {
			t.Errorf("written: %q, %v", b, err)
		}
		ended(t, ss)
	})
}

// connecting makes a mcp.Transport of a function.
type connecting func(context.Context) (mcp.Connection, error)

func (f connecting) Connect(ctx context.Context) (mcp.Connection, error) { return f(ctx) }

func TestLeaves(t *testing.T) {
	t.Run("when the drain is over", func(t *testing.T) {
		g := newGate()
		p, ss := g.serve(t, Transport{Drain: time.Millisecond})
		p.send(toolCall("1", "gate"))
		<-g.entered
		p.in.Close()
		if got := p.line(); got != answered("1", "current status") {
			t.Errorf("got %s", got)
		}
		ended(t, ss)
	})
	t.Run("when it is cut", func(t *testing.T) {
		g := newGate()
		cut, stop := context.WithCancel(context.Background())
		p, ss := g.serve(t, Transport{Drain: time.Hour, Cut: cut})
		p.send(toolCall("1", "gate"))
		<-g.entered
		stop()
		if got := p.line(); got != answered("1", "current status") {
			t.Errorf("got %s", got)
		}
		ended(t, ss)
	})
}

// TestEndWaitsForNoAnswerThatNeverComes: a subscription is answered when it is cancelled, a
// cancelled call never. The end of input waits for neither.
func TestEndWaitsForNoAnswerThatNeverComes(t *testing.T) {
	for name, lines := range map[string][]string{
		"subscription":   {`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`},
		"cancelled call": {request("1"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, stream := newPeer(t)
				_, done := answerAll(t, &Transport{Stream: stream}, none)
				begun := time.Now()
				p.send(lines...)
				p.in.Close()
				if err := <-done; err != io.EOF {
					t.Error(err)
				}
				if took := time.Since(begun); took > 0 {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestFailingWrite: a client that has left ends the connection, whatever is in flight. Calls are
// cancelled, and not asked for an answer that can't be given.
func TestFailingWrite(t *testing.T) {
	g := newGate()
	p, ss := g.serve(t, Transport{Drain: time.Hour})
	p.send(toolCall("1", "gate"))
	<-g.entered
	p.out.Close()
	p.send(toolCall("2", "echo"))
	select {
	case <-g.left:
	case <-g.leave.Done():
		t.Error("the call was asked to leave")
	}
	ended(t, ss)
}

// TestClientThatDoesNotRead: a client that stops reading blocks its own calls. It delays
// neither other clients nor the end.
func TestClientThatDoesNotRead(t *testing.T) {
	g := newGate()
	cut, stop := context.WithCancel(context.Background())
	slow, ss := g.serve(t, Transport{Cut: cut})
	for i := range 20 { // 5 MiB of answers
		slow.send(toolCall(fmt.Sprint(i), "large"))
	}
	other, _ := g.serve(t, Transport{})
	for i := range 20 {
		id := fmt.Sprint(i)
		other.send(toolCall(id, "echo"))
		if got := other.line(); got != answered(id, `{"id":`+id+`}`) {
			t.Errorf("got %s", got)
		}
	}
	// When it reads again, it gets everything.
	for range 20 {
		if n := len(slow.line()); n < 256<<10 {
			t.Errorf("an answer of %d bytes", n)
		}
	}
	for i := range 20 {
		slow.send(toolCall(fmt.Sprint(i), "large"))
	}
	slow.read.Peek(1)
	stop()
	ended(t, ss)
}

// The SDK quotes params that it can't read, however long they are. The answer is short, ends with
// the cause and has the id of its call, and the connection continues.
func TestErrorsOfTheSDKAreShort(t *testing.T) {
	p, _ := newGate().serve(t, Transport{})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5,"arguments":{"x":"` + strings.Repeat("ä", 100_000) + `"}}}`)
	got := p.line()
	if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"`) || !strings.HasSuffix(got, ` of type string"}}`) || len(got) > 2*maxFault {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
	p.send(toolCall("2", "echo"))
	if got := p.line(); got != answered("2", `{"id":2}`) {
		t.Errorf("got %s", got)
	}
}

func TestAsksTheClient(t *testing.T) {
	g := newGate()
	p, ss := g.serve(t, Transport{})
	done := make(chan error)
	go func() { done <- ss.Ping(context.Background(), nil) }() // owned by the test, which waits for it
	if got, want := p.line(), `{"jsonrpc":"2.0","id":1,"method":"ping"`; !strings.HasPrefix(got, want) {
		t.Fatalf("got %s", got)
	}
	p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	go func() { done <- ss.Ping(context.Background(), nil) }() // owned by the test, which waits for it
	p.line()
	p.send(`{"jsonrpc":"2.0","id":2,"error":{"code":-7,"message":"not now"}}`)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("got %v", err)
	}
}
