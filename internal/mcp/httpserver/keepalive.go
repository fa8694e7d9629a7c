package httpserver

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"time"
)

// aliveEvery is how long a request writes nothing before it writes a comment. Clients cancel a
// request that has no headers after 60 s, and the SDK sends them with the first event only.
const aliveEvery = 15 * time.Second

const (
	eventStream = "text/event-stream"
	unbuffered  = "X-Accel-Buffering" // asks a proxy to pass on events as they come
)

// A writer writes one answer. While the handler writes nothing, the writer sends comments, which a
// client of an event stream ignores: https://html.spec.whatwg.org/multipage/server-sent-events.html.
// The SDK writes from several goroutines.
type writer struct {
	rw     http.ResponseWriter
	rc     *http.ResponseController
	x      *exchange
	header http.Header // the handler's, until the headers are sent

	// Guarded by x.writing.
	timer    *time.Timer // runs comment
	sent     bool        // the headers are sent
	status   int         // the status that the handler wants; 0 if it has set none
	framed   bool        // the handler's bytes become an event, because comments went before them
	finished bool        // the handler has returned
}

// keepAlive returns a writer of the answer to rw. Its timer is owned by the request, whose end stops
// it.
func (x *exchange) keepAlive(rw http.ResponseWriter) *writer {
	w := &writer{rw: rw, rc: http.NewResponseController(rw), x: x, header: make(http.Header)}
	w.timer = time.AfterFunc(time.Hour, w.comment)
	w.timer.Reset(aliveEvery) // now that comment can find it
	return w
}

// comment writes a comment, and the headers before the first one, unless the handler is just
// writing.
func (w *writer) comment() {
	if !w.x.writing.TryLock() {
		w.timer.Reset(aliveEvery)
		return
	}
	defer w.x.writing.Unlock()
	if w.done() {
		return
	}
	if !w.sent {
		w.sent, w.framed = true, true
		h := w.rw.Header() // not the handler's headers, which it may be setting
		h.Set("Content-Type", eventStream)
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set(unbuffered, "no")
	}
	w.write([]byte(": \n\n"))
	w.flush()
}

// Header returns the headers that the handler can set until it writes.
func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	w.x.writing.Lock()
	defer w.x.writing.Unlock()
	w.writeHeader(status)
}

func (w *writer) writeHeader(status int) {
	if w.status != 0 {
		return
	}
	w.status = status
	if w.sent {
		w.framed = w.header.Get("Content-Type") != eventStream
		return
	}
	w.sent = true
	w.header.Del("Connection") // this package decides about it
	if w.header.Get("Content-Type") == eventStream {
		w.header.Set(unbuffered, "no")
	}
	maps.Copy(w.rw.Header(), w.header)
	w.deadline()
	w.rw.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.x.writing.Lock()
	defer w.x.writing.Unlock()
	if w.done() {
		return 0, errDone
	}
	w.writeHeader(http.StatusOK)
	event := p
	if w.framed {
		event = append(append([]byte("event: message\ndata: "), p...), "\n\n"...)
	}
	write := w.write
	if isAnswer(event) {
		write = w.writeAnswer
	}
	if err := write(event); err != nil {
		return 0, err
	}
	return len(p), nil
}

var errDone = errors.New("the request is over")

func (w *writer) write(p []byte) error {
	w.timer.Reset(aliveEvery)
	w.deadline()
	_, err := w.rw.Write(p)
	return err
}

// isAnswer reports whether an event, or a body that is no stream, is the answer to a call. The server
// asks its clients nothing, so of its messages only answers have an id. The SDK has no hook for what
// it writes (v1.8.0), so this depends on its format, and a test compares both.
func isAnswer(event []byte) bool {
	return bytes.HasPrefix(bytes.TrimPrefix(event, []byte("event: message\ndata: ")), []byte(`{"jsonrpc":"2.0","id":`))
}

// writeAnswer writes an answer. A client knows that it has the whole of it when it has read the last
// byte, and can close the connection at once. That byte is sent last, with what HTTP writes after it,
// and only to a client that has not left. So the answer has arrived just if all of this succeeds.
func (w *writer) writeAnswer(event []byte) error {
	last := len(event) - 1
	if err := w.write(event[:last]); err != nil {
		return err
	}
	if err := w.x.client.Err(); err != nil {
		return err
	}
	if err := w.write(event[last:]); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	w.x.wrote()
	return nil
}

// done reports whether nothing more is written: the handler has returned, or the client wants no
// answer.
func (w *writer) done() bool { return w.finished || !w.x.wantsAnswer() }

// FlushError sends what was written. The SDK calls it after each event.
func (w *writer) FlushError() error {
	w.x.writing.Lock()
	defer w.x.writing.Unlock()
	if w.done() {
		return errDone
	}
	return w.flush()
}

// flush has no deadline after it: one of HTTP/2 would end the stream between two writes.
func (w *writer) flush() error {
	w.deadline()
	err := w.rc.Flush()
	w.rc.SetWriteDeadline(time.Time{})
	return err
}

func (w *writer) deadline() { w.rc.SetWriteDeadline(time.Now().Add(writeTime)) }

// finish ends the comments. What the handler has not flushed is sent afterwards, in writeTime: at
// least the headers, with which the stream of a call that was cancelled ends.
func (w *writer) finish() {
	w.x.writing.Lock()
	defer w.x.writing.Unlock()
	w.finished = true
	w.writeHeader(http.StatusOK)
	w.timer.Stop()
	w.deadline()
}
