package httpserver

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// aliveEvery is how long a request writes nothing before it writes a comment. Clients give up on a
// request that has no headers after 60 s, and the SDK sends them with the first event only.
const aliveEvery = 15 * time.Second

const (
	eventStream = "text/event-stream"
	unbuffered  = "X-Accel-Buffering" // asks a proxy to pass on events as they come
)

// A writer writes one answer. While the handler writes nothing, the writer sends comments, which a
// client of an event stream ignores. The SDK writes from several goroutines.
type writer struct {
	rw     http.ResponseWriter
	rc     *http.ResponseController
	header http.Header // the handler's, until the headers are sent

	mu     sync.Mutex
	timer  *time.Timer // runs comment
	sent   bool        // the headers are sent
	status int         // what the handler wants; 0: it has said nothing
	framed bool        // what the handler writes becomes an event, because comments went before it
	done   bool        // the handler has returned
	failed error       // of the first write that failed
}

// keepAlive returns a writer to rw. Its timer is owned by the request, whose end stops it.
func keepAlive(rw http.ResponseWriter) *writer {
	w := &writer{rw: rw, rc: http.NewResponseController(rw), header: make(http.Header)}
	w.timer = time.AfterFunc(time.Hour, w.comment)
	w.timer.Reset(aliveEvery) // now that comment can find it
	return w
}

// comment writes a comment, and the headers before the first one, unless the handler is just
// writing.
func (w *writer) comment() {
	if !w.mu.TryLock() {
		w.timer.Reset(aliveEvery)
		return
	}
	defer w.mu.Unlock()
	if w.done {
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
	w.mu.Lock()
	defer w.mu.Unlock()
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
	w.header.Del("Connection") // which this package decides
	if w.header.Get("Content-Type") == eventStream {
		w.header.Set(unbuffered, "no")
	}
	maps.Copy(w.rw.Header(), w.header)
	w.deadline()
	w.rw.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	if w.framed {
		event := append(append([]byte("event: message\ndata: "), p...), "\n\n"...)
		if _, err := w.write(event); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return w.write(p)
}

func (w *writer) write(p []byte) (int, error) {
	w.timer.Reset(aliveEvery)
	w.deadline()
	n, err := w.rw.Write(p)
	w.fails(err)
	return n, err
}

func (w *writer) fails(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// err returns the error of the first write that failed.
func (w *writer) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// FlushError sends what was written. The SDK calls it after each event.
func (w *writer) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// flush has no deadline after it: one of HTTP/2 would end the stream between two writes.
func (w *writer) flush() error {
	w.deadline()
	err := w.rc.Flush()
	w.fails(err)
	w.rc.SetWriteDeadline(time.Time{})
	return err
}

func (w *writer) deadline() { w.rc.SetWriteDeadline(time.Now().Add(writeTime)) }

// finish ends the comments. What the handler has not flushed is sent afterwards, in writeTime.
func (w *writer) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.timer.Stop()
	w.deadline()
}
