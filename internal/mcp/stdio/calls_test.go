package stdio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/test/polltest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// manyCalls is more than the calls that can be in flight.
const manyCalls = maxHeld/callCost + 1

// none answers no call.
func none(*jsonrpc.Request) *jsonrpc.Response { return nil }

// TestTooManyCalls: a client whose calls are not answered is refused further ones.
func TestTooManyCalls(t *testing.T) {
	p, stream := newPeer(t)
	answerAll(t, &Transport{Stream: stream}, none)
	for i := range manyCalls {
		p.send(request(fmt.Sprint(i)))
	}
	var n int
	got := p.line()
	if _, err := fmt.Sscanf(got, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"`, &n); err != nil || n < manyCalls*9/10 {
		t.Fatalf("%v in %s", err, got)
	}
	if want := fmt.Sprintf("%d calls are in flight", n); !strings.Contains(got, want) {
		t.Errorf("got %s, want %q", got, want)
	}
}

// TestTooManyBytes: a few long calls take the room of many. One call alone is never refused.
func TestTooManyBytes(t *testing.T) {
	c := &conn{state: newInFlight()}
	open := func(id string, size int) (refused *refusal) {
		m, _, _ := decode([]byte(request(id)))
		call := newCall(c, m.(*jsonrpc.Request), []byte(id), size)
		c.update(func(s *inFlight) { refused = s.open(call) })
		return refused
	}
	if r := open("1", 2*maxHeld); r != nil {
		t.Errorf("the first call is refused: %+v", r)
	}
	if r := open("2", 10); r == nil || r.code != codeBusy || string(r.id) != "2" {
		t.Errorf("the second call: %+v", r)
	}
	key, _ := parseID([]byte("1"))
	for range 2 {
		c.update(func(s *inFlight) { s.close(key, true) })
	}
	if r := open("2", 10); r != nil {
		t.Errorf("the second call is refused after the first: %+v", r)
	}
}

// TestEndIsSeenAfterTooManyCalls: calls that were refused for lack of room do not delay
// the end of input.
func TestEndIsSeenAfterTooManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stream := newPeer(t)
		_, done := answerAll(t, &Transport{Stream: stream}, none)
		go func() { // owned by the test; ends when all is read, or Cleanup closes the pipe
			for i := range 2 * manyCalls {
				fmt.Fprintln(p.in, request(fmt.Sprint(i)))
			}
			p.in.Close()
		}()
		begun := time.Now()
		if err := <-done; err != io.EOF {
			t.Error(err)
		}
		if took, most := time.Since(begun), defaultDrain+2*answerTime; took > most {
			t.Errorf("the end of input was seen after %v, later than %v", took, most)
		}
	})
}

// TestOrdered: a call of a tool is handed over when the one before has passed, or was answered.
func TestOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stream := newPeer(t)
		c := (&Transport{Stream: stream, Ordered: true}).connect()
		t.Cleanup(func() { c.Close() })
		read := make(chan *jsonrpc.Request)
		go func() { // owned by the test; ends when Cleanup closes the pipe
			defer close(read)
			for {
				m, err := c.Read(context.Background())
				if err != nil {
					return
				}
				read <- m.(*jsonrpc.Request)
			}
		}()
		go p.send(toolCall("1", "a"), toolCall("2", "b"), request("3"), toolCall("4", "c"), toolCall("5", "d")) // joined below: all are read
		one := <-read
		synctest.Wait()
		select {
		case r := <-read:
			t.Fatalf("%v is handed over before 1 has passed", r.ID.Raw())
		default:
		}
		callOf(one).Pass()
		two := <-read
		<-read // 3 is no call of a tool, so it needs no turn
		begun := time.Now()
		c.update(func(s *inFlight) { s.queue = append(s.queue, make([]byte, maxQueued)...) })
		go c.Write(context.Background(), echo(two)) // owned by the test; ends with the connection
		<-read                                      // 4, although the answer to 2 waits for room
		if took := time.Since(begun); took > 0 {
			t.Errorf("4 was handed over after %v", took)
		}
		<-read // 5, although 4 has not passed
		if took := time.Since(begun); took != turnTime {
			t.Errorf("5 was handed over after %v", took)
		}
		go io.Copy(io.Discard, p.out) // owned by the test; ends when Cleanup closes the pipe
		p.in.Close()
	})
}

// TestOnAnswer: a handler is notified that its answer was queued or dropped before the client can
// have read it.
func TestOnAnswer(t *testing.T) {
	p, stream := newPeer(t)
	became := make(map[string]bool)
	var mu sync.Mutex
	tr := &Transport{Stream: stream}
	var c *conn
	c, _ = answerAll(t, tr, func(r *jsonrpc.Request) *jsonrpc.Response {
		id := fmt.Sprint(r.ID.Raw())
		callOf(r).OnAnswer(func(queued bool) {
			mu.Lock()
			defer mu.Unlock()
			became[id] = queued
		})
		if id == "2" {
			go func() { // owned by the test, which reads the answer to 3 after it
				io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`+"\n"+request("3")+"\n")
			}()
			return nil
		}
		if id == "3" { // so 2 has been cancelled
			key, _ := parseID([]byte("2"))
			c.Write(context.Background(), &jsonrpc.Response{ID: key, Result: []byte("{}")})
		}
		return echo(r)
	})
	for _, want := range []string{"1", "3"} {
		if want == "1" {
			p.send(request("1"))
		} else {
			p.send(request("2"))
		}
		if got := p.line(); got != echoed(want) {
			t.Fatalf("got %s", got)
		}
		mu.Lock()
		if !became[want] {
			t.Errorf("the client has the answer to %s before the handler knows", want)
		}
		mu.Unlock()
	}
	if queued, ok := became["2"]; !ok || queued {
		t.Errorf("of the answer to a cancelled call: known %t, queued %t", ok, queued)
	}
}

// TestOnCancel: a handler is notified of a cancel before a later call is handed over, or when it
// asks.
func TestOnCancel(t *testing.T) {
	p, stream := newPeer(t)
	var one, two *Call
	var cancelled []string // used by one goroutine
	answerAll(t, &Transport{Stream: stream}, func(r *jsonrpc.Request) *jsonrpc.Response {
		switch call := callOf(r); fmt.Sprint(r.ID.Raw()) {
		case "1":
			one = call
			one.OnCancel(func() { cancelled = append(cancelled, "1") })
		case "2":
			two = call
		default:
			two.OnCancel(func() { cancelled = append(cancelled, "2") })
			cancelled = append(cancelled, "3 begins")
			return echo(r)
		}
		return nil
	})
	p.send(request("1"), request("2"))
	for _, id := range []string{"1", "2", "1"} {
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	p.send(request("3"))
	if got := p.line(); got != echoed("3") {
		t.Fatalf("got %s", got)
	}
	if got := strings.Join(cancelled, ", "); got != "1, 2, 3 begins" {
		t.Errorf("got %s", got)
	}
}

// TestTooManyBadLines: a client sends bad lines and reads no answers. Its input is read
// nevertheless, its refusals are bounded, and its calls are answered as soon as it reads.
func TestTooManyBadLines(t *testing.T) {
	p, stream := newPeer(t)
	answerAll(t, &Transport{Stream: stream}, echo)
	const fit = maxRefused / (len(notJSON) + 1) // refusals, in the queue
	const lines = 3 * fit
	p.send(strings.Repeat("x\n", lines) + `{"jsonrpc":"2.0","method":"m"}`) // taken, and so is all before it
	p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
	refused := 0
	for got := p.line(); got != echoed("1"); got = p.line() {
		if got != notJSON {
			t.Fatalf("got %s", got)
		}
		refused++
	}
	if refused < fit || refused > 2*fit+2 { // the writer is at a batch, and the queue is full
		t.Errorf("%d refusals of %d lines", refused, lines)
	}
}

// TestManyQuickCalls: a client that sends thousands of quick calls before it reads any answer gets
// all of the answers.
func TestManyQuickCalls(t *testing.T) {
	p, ss := newGate().serve(t, Transport{})
	const calls = manyCalls / 2
	go func() { // owned by the test, which reads all answers
		for i := range calls {
			fmt.Fprintf(p.in, "%s\n", toolCall(fmt.Sprint(i), "echo"))
		}
	}()
	seen := make(map[string]bool)
	for range calls {
		seen[p.line()] = true
	}
	for i := range calls {
		if id := fmt.Sprint(i); !seen[answered(id, `{"id":`+id+`}`)] {
			t.Fatalf("call %d was not answered, or not so", i)
		}
	}
	p.in.Close()
	ended(t, ss)
}

// A reusing stream is a client that uses an id again as soon as it has the answer.
type reusing struct {
	io.Reader
	w      *io.PipeWriter
	rounds int
	got    chan string
}

func (r *reusing) Write(b []byte) (int, error) {
	if r.rounds--; r.rounds > 0 && string(b) == echoed("1")+"\n" {
		io.WriteString(r.w, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n")
	} else {
		r.got <- string(b)
	}
	return len(b), nil
}

func (r *reusing) Close() error { return r.w.Close() }

// TestIDIsFreeWithItsAnswer: a client that has the answer can use the id again at once.
func TestIDIsFreeWithItsAnswer(t *testing.T) {
	in, client := io.Pipe()
	stream := &reusing{Reader: in, w: client, rounds: 5000, got: make(chan string, 1)}
	answerAll(t, &Transport{Stream: stream}, echo)
	if _, err := io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-stream.got; got != echoed("1")+"\n" {
		t.Errorf("got %s", got)
	}
}

// TestIDIsTakenUntilItsAnswerIsQueued: a call is in flight while its answer waits for room, or an
// end of input would not wait for it.
func TestIDIsTakenUntilItsAnswerIsQueued(t *testing.T) {
	p, stream := newPeer(t)
	c := (&Transport{Stream: stream}).connect()
	t.Cleanup(func() { c.Close() })
	go func() { // owned by the test; ends with the input. It doesn't close the connection: that would cut a slow reader off
		for {
			m, err := c.Read(context.Background())
			if err != nil {
				return
			}
			c.Write(context.Background(), echo(m.(*jsonrpc.Request)))
		}
	}()
	full := append(bytes.Repeat([]byte("x"), maxQueued), '\n')
	fill := func() {
		if err := c.send(t.Context(), func(s *inFlight) { s.queue = append(s.queue, full...) }); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	p.read.Peek(1) // the writer is at this one until all of it is read
	fill()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
	waits := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.state.waiting[hasRoom] != nil
	}
	polltest.Until(t, "the answer to wait for room in the queue", waits)
	p.in.Close()
	for range 2 {
		p.line()
	}
	if got := p.line(); got != echoed("1") {
		t.Errorf("got %s", got)
	}
}

// callOf returns the call that is attached to a request, as handlers find it.
func callOf(r *jsonrpc.Request) *Call {
	return delivery.TicketOf(r.Extra.(*mcp.RequestExtra)).(*Call)
}
