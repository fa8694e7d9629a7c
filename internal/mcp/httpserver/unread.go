package httpserver

import (
	"io"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// bounded returns a handler that serves as h does and limits the time that a client without a token
// can hold a connection. It sets the deadlines before anything looks at the request: bodyTime for the
// body, and writeTime for the answer until the caller is known.
//
// If the request is answered before its body was read, its connection is closed. net/http would wait
// for the body before it writes the answer, and for as long as the client likes:
// https://go.dev/issue/15527. HTTP/2 needs none of this, because a body holds no more than its stream.
//
// A panic is an error in the log. net/http would log it like the mistakes of clients.
func (s *Server) bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			bug := recover()
			if bug == nil {
				return
			}
			if bug != http.ErrAbortHandler {
				s.config.Log.Error("panic while a request was served", "panic", bug, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		rc := http.NewResponseController(w)
		rc.SetWriteDeadline(time.Now().Add(writeTime))
		if r.ContentLength == 0 {
			h.ServeHTTP(w, r)
			return
		}
		rc.SetReadDeadline(time.Now().Add(bodyTime)) // net/http removes it at the end of the body
		if r.ProtoMajor > 1 {
			h.ServeHTTP(w, r)
			return
		}
		body := &body{ReadCloser: r.Body}
		closing := &closingWriter{ResponseWriter: w, body: body}
		r = r.WithContext(r.Context()) // a copy
		r.Body = body
		h.ServeHTTP(closing, r)
		closing.begin()
	})
}

// A body remembers whether it was read to its end.
type body struct {
	io.ReadCloser
	read atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.read.Store(true)
	}
	return n, err
}

// A closingWriter closes the connection after the answer if the body was not read before it.
type closingWriter struct {
	http.ResponseWriter
	body  *body
	begun bool // the headers are sent
}

// begin is called before the headers are sent. The client has lingerTime to read the answer, while
// net/http reads what comes of the body: if the connection were closed at once, the kernel would
// reset it, and the client could lose the answer.
func (w *closingWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if !w.body.read.Load() {
		w.Header().Set("Connection", "close")
		http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(lingerTime))
	}
}

func (w *closingWriter) WriteHeader(status int) {
	if status >= 200 {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *closingWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *closingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
