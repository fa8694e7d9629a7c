package front

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"asyncrepl/internal/client/sockets"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/mcp/stdio"
)

// A link is an engine that is attached.
type link struct {
	Engine
	gone  chan struct{} // closed when the engine has closed the connection and the calls in flight are answered
	left  sync.Once     // goodbye
	cuts  sync.Once     // cut
	write sync.Mutex    // serializes messages
}

// readBuffer holds the lines that are read at once. A longer line takes memory of its own.
const readBuffer = 64 << 10

// request returns a line: a call, or a notification if id is nil. It shares the memory of params.
func request(id any, method string, params json.RawMessage) net.Buffers {
	head := []byte(`{"jsonrpc":"2.0",`)
	if id != nil {
		head = append(append(append(head, `"id":`...), rawjson.Of(id)...), ',')
	}
	head = append(append(head, `"method":`...), rawjson.Of(method)...)
	if params == nil {
		return net.Buffers{append(head, "}\n"...)}
	}
	return net.Buffers{append(head, `,"params":`...), params, []byte("}\n")}
}

// send sends lines. A failed write is seen by follow, as the end of the connection.
func (e *link) send(lines net.Buffers) {
	e.write.Lock()
	defer e.write.Unlock()
	lines.WriteTo(e.Conn)
}

// goodbye reports to the engine that the client has left.
func (e *link) goodbye() { e.left.Do(func() { e.send(net.Buffers{[]byte(sockets.Goodbye + "\n")}) }) }

// cut reports to the engine that the client has left and that calls in flight must be answered at once.
func (e *link) cut() {
	e.left.Do(func() {})
	e.cuts.Do(func() { e.send(net.Buffers{[]byte(sockets.GoodbyeNow + "\n")}) })
}

// follow passes on what the engine says, until its end of the connection is closed.
func (f *front) follow(e *link) {
	defer close(e.gone)
	defer e.Close()
	r := bufio.NewReaderSize(e.Conn, readBuffer)
	for {
		line, err := readLine(r)
		if err != nil { // what came of a line is dropped
			if err != io.EOF {
				f.Log.Debug("the connection to the engine failed", "error", err)
			}
			break
		}
		f.pass(line)
	}
	f.died(e)
}

// mostLine bounds a message of an engine, whose jobs can have written it. A reply with pictures has a few
// MiB.
const mostLine = 64 << 20

var errTooLong = fmt.Errorf("a message has more than %d bytes", mostLine)

// readLine reads a message. It is valid until the next one is read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	line = slices.Clone(line)
	for err == bufio.ErrBufferFull {
		if len(line) > mostLine {
			return nil, errTooLong
		}
		var part []byte
		part, err = r.ReadSlice('\n')
		line = append(line, part...)
	}
	return line, err
}

// pass gives the client a message of an engine.
func (f *front) pass(line []byte) {
	m, err := stdio.Decode(line)
	if err != nil {
		f.Log.Warn("the engine sent what is no message", "error", err)
		return
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		key, _ := m.ID.Raw().(string)
		f.mu.Lock()
		c, ok := f.open[key]
		delete(f.open, key)
		f.mu.Unlock()
		if !ok { // the front asked, or the call was cancelled
			return
		}
		m.ID = c.id
	case *jsonrpc.Request:
		if m.IsCall() { // no engine asks a client for anything, but a job that has taken one over can
			f.Log.Warn("the engine asked the client for something", "method", m.Method)
			return
		}
		if m.Method == "notifications/subscriptions/acknowledged" { // the Server has done that
			return
		}
	}
	f.Connection.Write(context.Background(), m) // an error means that the client has left
}

// died answers the calls in flight of an engine that is gone.
func (f *front) died(e *link) {
	f.mu.Lock()
	leaving := f.leaving
	f.mu.Unlock()
	ended, reason := "", ending
	if !leaving { // an engine that was left can run on
		ended = e.Ended()
	}
	f.mu.Lock()
	f.engine = nil
	calls := slices.Collect(maps.Values(f.open))
	clear(f.open)
	if !leaving {
		reason = f.noteDeath(ended)
	}
	f.mu.Unlock()
	if !leaving {
		f.Log.Warn("the engine died", "how", cmp.Or(ended, "unknown"), "calls", len(calls))
	}
	f.fail(calls, reason)
}

// noteDeath notes the death of an engine and returns the answer to its calls. The caller holds mu.
func (f *front) noteDeath(ended string) string {
	again := "The next call starts it again"
	if f.why = ""; ended != "" {
		f.why = " (" + ended + ")"
	}
	now := time.Now()
	f.deaths = append(f.deaths, now)
	if n := len(f.deaths) - deathsAllowed; n >= 0 {
		if f.deaths = f.deaths[n:]; now.Sub(f.deaths[0]) <= refusalTime {
			f.refused, f.deaths = now.Add(refusalTime), nil
			again = fmt.Sprintf("It has died %d times within %v: calls are refused until %s, and the first one after that starts it again",
				deathsAllowed, refusalTime, f.refused.Format(time.TimeOnly))
		}
	}
	return "The server died during this call" + f.why + ", with its running jobs and its variables. " + again + "; list_jobs then shows what became of the jobs."
}
