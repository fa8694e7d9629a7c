package httpserver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// waiting is a tool that answers when answer is closed.
func waiting(answer <-chan struct{}) map[string]tool {
	return map[string]tool{"tool": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return say("answered"), nil
	}}
}

// waitingFor is a tool that answers when what answer points at is closed: a channel that a test makes
// in its bubble.
func waitingFor(answer *chan struct{}) map[string]tool {
	return map[string]tool{"tool": func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return waiting(*answer)["tool"](ctx, req)
	}}
}

// TestKeepAlive: a client that waits reads headers after 15 s, and a comment then and every 15 s.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	var answer chan struct{}
	inBothEras(t, waitingFor(&answer), Config{}, func(t *testing.T, _ *Server, dial func() net.Conn, call message) {
		answer = make(chan struct{})
		c, begun := dial(), time.Now()
		send(t, c, call)
		head, r := receive(t, c)
		for i := 1; i < 10; i++ {
			if comment, end := line(t, r), line(t, r); comment != ": " || end != "" {
				t.Fatalf("got %q, %q", comment, end)
			}
			if took, want := time.Since(begun), time.Duration(i)*aliveEvery; took != want {
				t.Fatalf("comment %d came after %v, not %v", i, took, want)
			}
		}
		if kind := head.Header.Get("Content-Type"); head.StatusCode != http.StatusOK || kind != eventStream || head.Header.Get(unbuffered) != "no" {
			t.Errorf("%s, %v", head.Status, head.Header)
		}
		close(answer)
		if event := line(t, r); event != "event: message" {
			t.Errorf("got %q", event)
		}
		rest, err := io.ReadAll(r)
		if err != nil || !strings.Contains(string(rest), "answered") || strings.Contains(string(rest), "\n: ") {
			t.Errorf("%v, %s", err, rest)
		}
	})
}

// TestKeepAliveOfStream: the stream of a session has comments, too.
func TestKeepAliveOfStream(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		id := initialize(t, dial())
		c, begun := dial(), time.Now()
		send(t, c, message{method: http.MethodGet, headers: "Mcp-Session-Id: " + id + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"})
		_, r := receive(t, c)
		for i, want := range []string{": ok", "", ": ", "", ": ", ""} {
			if got := line(t, r); got != want {
				t.Errorf("line %d is %q, not %q", i, got, want)
			}
		}
		if took := time.Since(begun); took != 2*aliveEvery {
			t.Errorf("two comments came after %v", took)
		}
	})
}

// TestErrorAfterKeepAlive: an error that has a status of HTTP of its own comes as an event if the
// headers were sent before.
func TestErrorAfterKeepAlive(t *testing.T) {
	t.Parallel()
	tools := map[string]tool{"tool": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		time.Sleep(aliveEvery + time.Second)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}
	}}
	inBubble(t, tools, Config{}, func(t *testing.T, _ *Server, dial func() net.Conn) {
		head, body := roundTrip(t, dial(), callOfEra("", "tool"))
		const want = ": \n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"no\"}}\n\n"
		if head.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s\n%q", head.Status, body)
		}
	})
}

// TestSlowReader: a client that does not read its answer is cut off.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	var fate chan bool
	inBothEras(t, answering(&fate, "answered"), Config{}, func(t *testing.T, _ *Server, dial func() net.Conn, call message) {
		fate = make(chan bool, 1)
		c, begun := dial(), time.Now()
		send(t, c, call)
		if <-fate {
			t.Error("the answer counts as read")
		}
		if took := time.Since(begun); took != writeTime {
			t.Errorf("the client was cut off after %v", took)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
	})
}

// TestAnswersOfTheSDKAreKnown: of what the SDK writes, exactly the answers to calls are taken for
// answers. If this fails after the SDK was updated, isAnswer must follow it: else each answer counts
// as lost, and what it announces is announced again.
func TestAnswersOfTheSDKAreKnown(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "good", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "answered"}}}, err
	})
	server.AddTool(&mcp.Tool{Name: "bad", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}
	})
	newer, older := eras()
	session := ""
	post := func(h http.Handler, m message) (events []string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(m.String())))
		if err != nil {
			t.Fatal(err)
		}
		w := &eventRecorder{header: make(http.Header)}
		h.ServeHTTP(w, with(r.WithContext(t.Context()), server))
		session = cmp.Or(w.header.Get("Mcp-Session-Id"), session)
		return w.events
	}
	post(older, hello)
	for name, h := range map[string]*mcp.StreamableHTTPHandler{"": newer, session: older} {
		for tool, want := range map[string][]bool{"good": {false, true}, "bad": {true}} {
			call := callOfEra(name, tool)
			call.body = strings.Replace(call.body, `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
			if h == older {
				call.body = strings.Replace(call.body, `"arguments":`, `"_meta":{"progressToken":"p"},"arguments":`, 1)
			}
			var got []bool
			events := post(h, call)
			for _, e := range events {
				got = append(got, isAnswer([]byte(e)))
			}
			if !slices.Equal(got, want) {
				t.Errorf("session %q, tool %s: answers %v, want %v, in %q", name, tool, got, want, events)
			}
		}
	}
}

// An eventRecorder keeps what a handler writes, one event for each write.
type eventRecorder struct {
	header http.Header
	events []string
}

func (w *eventRecorder) Header() http.Header { return w.header }

func (w *eventRecorder) WriteHeader(int) {}

func (w *eventRecorder) Write(p []byte) (int, error) {
	w.events = append(w.events, string(p))
	return len(p), nil
}

func (w *eventRecorder) Flush() {}
