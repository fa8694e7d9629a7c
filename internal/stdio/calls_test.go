package stdio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"asyncrepl/jobs/jobstest"
)

// manyCalls is more calls than may be in flight.
const manyCalls = maxHeld/callCost + 1

// none answers no call.
func none(*jsonrpc.Request) *jsonrpc.Response { return nil }

// TestTooManyCalls has a client whose calls are not answered: it is refused further ones.
func TestTooManyCalls(t *testing.T) {
	p, stream := newPeer(t)
	answerAll(t, &Transport{Stream: stream}, none)
	for i := range manyCalls {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"m"}`, i))
	}
	var n int
	got := p.line()
	if _, err := fmt.Sscanf(got, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"`, &n); err != nil || n < manyCalls-5 {
		t.Fatalf("%v in %s", err, got)
	}
	if want := fmt.Sprintf("%d calls (", n); !strings.Contains(got, want) {
		t.Errorf("got %s, want %q", got, want)
	}
}

// TestTooManyBytes has a client whose few calls are long.
func TestTooManyBytes(t *testing.T) {
	p, stream := newPeer(t)
	var first *jsonrpc.Request
	c, _ := answerAll(t, &Transport{Stream: stream, MaxLine: 2 * maxHeld}, func(r *jsonrpc.Request) *jsonrpc.Response {
		if first == nil {
			first = r
			return nil
		}
		return echo(r)
	})
	// One call alone is never refused, however long.
	p.send(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"`+strings.Repeat("x", maxHeld)+`"}}`, `{"jsonrpc":"2.0","id":2,"method":"m"}`)
	if got := p.line(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"1 calls (`) {
		t.Errorf("got %s", got)
	}
	go c.Write(context.Background(), &jsonrpc.Response{ID: first.ID, Result: []byte("{}")}) // owned by the test, which reads it
	p.line()
	p.send(`{"jsonrpc":"2.0","id":2,"method":"m"}`)
	if got := p.line(); got != echoed("2") {
		t.Errorf("got %s", got)
	}
}

// TestEndIsSeenAfterTooManyCalls: calls for which there is no room do not wait one after the other.
func TestEndIsSeenAfterTooManyCalls(t *testing.T) {
	p, stream := newPeer(t)
	_, done := answerAll(t, &Transport{Stream: stream, Drain: time.Millisecond}, none)
	go func() { // owned by the test; ends when all is read, or Cleanup closes the pipe
		for i := range manyCalls + 200 {
			fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"method":"m"}`+"\n", i)
		}
		p.in.Close()
	}()
	begun := time.Now()
	endsWithEOF(t, done)
	if took := time.Since(begun); took > 20*busyTime {
		t.Errorf("the end of input was seen after %v", took)
	}
}

func endsWithEOF(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != io.EOF {
			t.Error(err)
		}
	case <-time.After(jobstest.Patience):
		t.Fatal("the end of input was not seen")
	}
}

// TestTooManyBadLines has a client that sends bad lines and reads no answers. Its input is read all
// the same, what it is told is bounded, and its calls are answered as soon as it reads.
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

// TestManyQuickCalls has a client that sends quick calls by the thousand before it reads any answer:
// each is answered.
func TestManyQuickCalls(t *testing.T) {
	p, ss := newGate().serve(t, Transport{})
	const calls = 4 * manyCalls
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

// TestIDIsTakenUntilItsAnswerIsQueued: a call is in flight while its answer waits for room, or an end
// of input would not wait for it.
func TestIDIsTakenUntilItsAnswerIsQueued(t *testing.T) {
	p, stream := newPeer(t)
	c, _ := answerAll(t, &Transport{Stream: stream}, echo)
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
	for end := time.Now().Add(jobstest.Patience); !waits(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the answer does not wait for room in the queue")
		}
	}
	p.in.Close()
	for range 2 {
		p.line()
	}
	if got := p.line(); got != echoed("1") {
		t.Errorf("got %s", got)
	}
}
