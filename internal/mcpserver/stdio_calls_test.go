package mcpserver

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"asyncrepl/jobs/jobstest"
)

// takes is a client's end that has each write as soon as it is made.
type takes func([]byte)

func (f takes) Write(b []byte) (int, error) { f(b); return len(b), nil }
func (f takes) Close() error                { return nil }

// queued is an error whose text is asked for when the answer with it is queued.
type queued func() string

func (f queued) Error() string { return f() }

// An id is free as soon as the client can have read its answer, however late the
// sender goes on from there: this one finds the calls locked from the queueing of
// the answer until the client has it.
func TestStdioIDIsFreeWithItsAnswer(t *testing.T) {
	in, client := io.Pipe()
	defer client.Close()
	var c *lineConn
	var id jsonrpc.ID
	inFlight := make(chan bool, 1) // one answer is written
	stream := duplex{in, takes(func([]byte) {
		_, still := c.calls.pending[id]
		c.calls.mu.Unlock()
		inFlight <- still
	})}
	c, _ = answerAll(t, &Transport{Stream: stream}, func(r *jsonrpc.Request) *jsonrpc.Response {
		id = r.ID
		return &jsonrpc.Response{ID: r.ID, Error: queued(func() string {
			c.calls.mu.Lock()
			return "no"
		})}
	})
	if _, err := io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case still := <-inFlight:
		if still {
			t.Error("the client has the answer, and its id is taken")
		}
	case <-time.After(jobstest.Patience):
		c.calls.mu.Unlock()
		t.Fatal("the sender wants the calls again before its answer can be read")
	}
}

// A call is in flight until its answer is queued, or an end of input in between
// would not wait for it.
func TestStdioIDIsTakenUntilItsAnswerIsQueued(t *testing.T) {
	p, stream := newPeer(t)
	c, _ := answerAll(t, &Transport{Stream: stream}, echo)
	full := append(bytes.Repeat([]byte("x"), maxQueued), '\n')
	fill := func() {
		if err := c.out.send(t.Context(), func(b []byte) []byte { return append(b, full...) }); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	p.read.Peek(1) // the writer is at this one until all of it is read
	fill()
	p.send(`{"jsonrpc":"2.0","id":1,"method":"m"}`)
	waits := func() bool {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.out.changed != nil
	}
	for end := time.Now().Add(jobstest.Patience); !waits(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the answer does not wait for room in the queue")
		}
	}
	id, _ := parseID([]byte("1"))
	c.calls.mu.Lock()
	_, taken := c.calls.pending[id]
	c.calls.mu.Unlock()
	if !taken {
		t.Error("the answer is not queued, and the call no longer in flight")
	}
	for range 2 {
		p.line()
	}
	if got := p.line(); got != echoed("1") {
		t.Errorf("got %s", got)
	}
}
