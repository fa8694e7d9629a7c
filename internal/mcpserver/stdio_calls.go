package mcpserver

import (
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A client that has more than this in flight waits, and is refused when that does
// not help. What it may make us keep are the calls and as many answers.
const (
	maxCalls     = 512
	maxCallBytes = 64 << 20
	// busyTime is how long a call waits for its turn: quick ones, sent by the
	// thousand, are over by then. Not longer, for what the others wait for may be
	// behind this one.
	busyTime = time.Second
)

// A call is a request that is not answered yet.
type call struct {
	id        []byte // as the client wrote it
	bytes     int
	endless   bool // answered only when it is cancelled: nobody waits for it
	cancelled bool // not to be answered
}

func (c call) owed() bool { return !c.endless && !c.cancelled }

// calls are the requests of a connection that are not answered yet.
type calls struct {
	mu      sync.Mutex
	pending map[jsonrpc.ID]call
	bytes   int           // of their lines
	owed    int           // answers that the client waits for
	none    chan struct{} // closed when owed is 0; nil until somebody asks
	fewer   chan struct{} // closed and replaced when one is closed; nil while nobody waits
}

func newCalls() *calls { return &calls{pending: make(map[jsonrpc.ID]call)} }

// open enters a call. The refusal of one whose id is taken names no id: the
// client would take it for the answer to the other one.
func (cs *calls) open(id jsonrpc.ID, c call) *refusal {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if _, ok := cs.pending[id]; ok {
		return refuse(nil, jsonrpc.CodeInvalidRequest,
			"id %s is that of a call still in flight: give each call an id of its own", c.id)
	}
	if len(cs.pending) >= maxCalls || len(cs.pending) > 0 && cs.bytes+c.bytes > maxCallBytes {
		return refuse(c.id, codeBusy, "%d calls (%d bytes) are in flight: wait for their answers", len(cs.pending), cs.bytes)
	}
	cs.pending[id] = c
	cs.bytes += c.bytes
	if c.owed() {
		cs.owed++
	}
	return nil
}

// less returns a channel that is closed when the next call is closed.
func (cs *calls) less() <-chan struct{} {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.fewer == nil {
		cs.fewer = make(chan struct{})
	}
	return cs.fewer
}

// cancel notes that nobody waits for the answer to id any more.
func (cs *calls) cancel(id jsonrpc.ID) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c, ok := cs.pending[id]
	if !ok || c.cancelled {
		return
	}
	owed := c.owed()
	c.cancelled = true
	cs.pending[id] = c
	if owed {
		cs.settle()
	}
}

// wanted tells whether the client waits for the answer to id.
func (cs *calls) wanted(id jsonrpc.ID) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c, ok := cs.pending[id]
	return ok && !c.cancelled
}

// close takes out a call that has its answer now. It returns the id to answer
// with, and whether there is to be an answer.
func (cs *calls) close(id jsonrpc.ID) (raw []byte, wanted bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c, ok := cs.pending[id]
	if !ok {
		return nil, false
	}
	delete(cs.pending, id)
	cs.bytes -= c.bytes
	if cs.fewer != nil {
		close(cs.fewer)
		cs.fewer = nil
	}
	if c.owed() {
		cs.settle()
	}
	return c.id, !c.cancelled
}

// settle counts down what is owed. The lock is held.
func (cs *calls) settle() {
	cs.owed--
	if cs.owed == 0 && cs.none != nil {
		close(cs.none)
	}
}

// answered returns a channel that is closed when nothing is owed any more. It is
// asked for once, when no more calls are opened.
func (cs *calls) answered() <-chan struct{} {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.none = make(chan struct{})
	if cs.owed == 0 {
		close(cs.none)
	}
	return cs.none
}
