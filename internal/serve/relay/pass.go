package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// oneTime limits one read of a client's body, and one write to a client. The full body has no limit.
const oneTime = 30 * time.Second

// A Request says how a request is passed on.
type Request struct {
	Token string // the name of the caller's token
	// Message is the body, if it was read already. If it is nil, the body is passed on as it comes.
	Message []byte
	// Refuse answers a request that has no answer. The error is a *BodyError, or says why the process
	// gives none.
	Refuse func(w http.ResponseWriter, err error)
	// Broken is called if an answer ends too early, with what is lost. It returns the event that answers the
	// call, or nil. If the answer is a stream that has ended between two events, the event is sent.
	// Otherwise the client's connection is cut.
	Broken func(err error) (event []byte)
	// Seen is called with what the process reports of the request, before the end of the answer.
	Seen func(Note)
	// Head sets the headers of an answer, of whose headers none is passed on then, and returns its status.
	// If it is nil, the status and the headers in a list are passed on.
	Head func(to http.Header, from *http.Response) (status int)
}

// A BodyError is an error of reading a client's body.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return "reading the body: " + e.Err.Error() }
func (e *BodyError) Unwrap() error { return e.Err }

// A Note is what a process reports of a request, which nothing outside it knows. It comes in the
// trailer of the answer.
type Note struct {
	Method string `json:"method,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Job    string `json:"job,omitempty"`
	Result string `json:"result,omitempty"`
}

const noteTrailer = "Async-Repl-Request"

// Set adds the note to the headers of an answer whose body has been written.
func (n Note) Set(h http.Header) {
	if text, err := json.Marshal(n); err == nil {
		h.Set(http.TrailerPrefix+noteTrailer, string(text))
	}
}

// A pass is one request on its way.
type pass struct {
	Request
	to   *Tenant
	ctx  context.Context // the context of the request
	w    http.ResponseWriter
	rc   *http.ResponseController
	body *body // the body that is passed on; nil: the message is sent
}

// buffers hold what is on its way to clients.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Pass passes a request on and its answer back. It ends when the context of r is done: a stream of
// events then ends as if it were complete, and any other answer is cut.
func (t *Tenant) Pass(w http.ResponseWriter, r *http.Request, how Request) {
	p := &pass{Request: how, to: t, ctx: r.Context(), w: w, rc: http.NewResponseController(w)}
	if p.Message == nil && r.ContentLength != 0 {
		p.body = &body{from: r.Body, rc: p.rc}
	}
	out := p.request(r)
	res, err := t.transport.RoundTrip(out)
	if err != nil {
		p.fail(err)
		return
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusSwitchingProtocols && out.Header.Get("Upgrade") != "" && strings.EqualFold(res.Header.Get("Upgrade"), websocket):
		p.connect(res)
	case res.StatusCode < 200:
		p.fail(errAnswer)
	default:
		p.answer(res, r.Method == http.MethodGet)
	}
}

const websocket = "websocket"

// Headers of requests that the process gets from the relay only, or not at all: those about the
// connection (https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1), and what the server has checked
// or done. With an Idempotency-Key, the transport would send a call again.
var dropped = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Cookie", "Expect", "Idempotency-Key", "Origin", "X-Idempotency-Key",
}

// request returns the request that is sent for r.
func (p *pass) request(r *http.Request) *http.Request {
	u := *r.URL
	u.Scheme, u.Host = "http", host
	out := (&http.Request{Method: r.Method, URL: &u, Header: r.Header.Clone()}).WithContext(p.ctx)
	upgrade := false
	for _, list := range r.Header["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.TrimSpace(name)
			upgrade = upgrade || strings.EqualFold(name, "Upgrade")
			out.Header.Del(name)
		}
	}
	for _, name := range dropped {
		out.Header.Del(name)
	}
	if upgrade && strings.EqualFold(r.Header.Get("Upgrade"), websocket) {
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{websocket}
	}
	out.Header["Authorization"] = []string{"Bearer " + p.Token}
	switch {
	case p.body != nil:
		out.Body, out.ContentLength = p.body, r.ContentLength
	case len(p.Message) > 0:
		// The transport can send it again on another connection if it could send nothing on this one.
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.Message)), nil }
		out.Body, _ = out.GetBody()
		out.ContentLength = int64(len(p.Message))
	}
	return out
}

// passedOn are the headers of answers that are passed on. Others, such as cookies, are of the whole
// server, which is not this tenant's.
var passedOn = map[string]bool{
	"Accept-Ranges": true, "Allow": true, "Cache-Control": true, "Content-Disposition": true, "Content-Encoding": true,
	"Content-Length": true, "Content-Range": true, "Content-Type": true, "Cross-Origin-Resource-Policy": true,
	"Etag": true, "Last-Modified": true, "Mcp-Session-Id": true, "Retry-After": true, "X-Accel-Buffering": true,
	"Sec-Websocket-Accept": true, "Sec-Websocket-Extensions": true, "Sec-Websocket-Protocol": true,
}

// head sets the headers of an answer, and returns its status.
func (p *pass) head(to http.Header, from *http.Response) (status int) {
	if p.Head != nil {
		return p.Head(to, from)
	}
	for name, values := range from.Header {
		if passedOn[name] {
			to[name] = values
		}
	}
	// A browser runs nothing of what a process sends.
	to.Set("X-Content-Type-Options", "nosniff")
	to.Set("Content-Security-Policy", "sandbox")
	return from.StatusCode
}

// begun is in each event that answers a call. It can't be in the text of one.
var begun = []byte(`data: {"jsonrpc":"2.0","id":`)

// answer passes an answer on.
func (p *pass) answer(res *http.Response, read bool) {
	if p.body != nil {
		p.body.answer()
	}
	events := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	p.w.WriteHeader(p.head(p.w.Header(), res))
	if events && read {
		p.flush() // its first event can take long
	}
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	var tail []byte   // the last two bytes of the events
	answered := false // the answer to a call was read
	for {
		n, err := res.Body.Read(buffer[:])
		if n > 0 {
			p.write(buffer[:n], err != io.EOF)
		}
		if events {
			tail = append(tail, buffer[max(0, n-2):n]...)
			tail = tail[max(0, len(tail)-2):]
			answered = answered || bytes.Contains(buffer[:n], begun)
		}
		switch {
		case err == nil:
			continue
		case err == io.EOF:
			var note Note // trailers are not passed on
			if text := res.Trailer.Get(noteTrailer); text != "" && json.Unmarshal([]byte(text), &note) == nil {
				p.Seen(note)
			}
		case p.ctx.Err() != nil:
			if !events {
				panic(http.ErrAbortHandler)
			}
		default:
			between := events && (len(tail) == 0 || string(tail) == "\n\n")
			if between && answered {
				break
			}
			event := p.Broken(errors.New(p.to.backend.Lost(err)))
			if event == nil || !between {
				panic(http.ErrAbortHandler)
			}
			p.write(event, true)
		}
		p.deadline() // net/http sends the rest and the end
		return
	}
}

// write writes a part of an answer and sends it now or with the next one, or cuts the client's connection.
func (p *pass) write(b []byte, now bool) {
	p.deadline()
	_, err := p.w.Write(b)
	if err == nil && now {
		err = p.flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (p *pass) deadline() { p.rc.SetWriteDeadline(time.Now().Add(oneTime)) }

// flush sends what was written. There is no deadline after it: one of HTTP/2 would end the stream
// between two writes.
func (p *pass) flush() error {
	p.deadline()
	err := p.rc.Flush()
	p.rc.SetWriteDeadline(time.Time{})
	return err
}

// connect connects a client and the process, which speak WebSocket from now on, until one of both
// ends the connection.
func (p *pass) connect(res *http.Response) {
	process, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		p.fail(errAnswer)
		return
	}
	client, buffered, err := p.rc.Hijack()
	if err != nil { // HTTP/2
		p.fail(err)
		return
	}
	defer client.Close()
	end := func() {
		client.Close()
		process.Close()
	}
	defer context.AfterFunc(p.ctx, end)()
	h := http.Header{"Connection": {"Upgrade"}, "Upgrade": {websocket}}
	p.head(h, res)
	switched := http.Response{StatusCode: res.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: h}
	if switched.Write(client) != nil {
		return
	}
	sent := make(chan struct{})
	go func() { // joined below; ends with one of the connections
		defer close(sent)
		io.Copy(process, buffered)
		end()
	}()
	io.Copy(timely{client}, process)
	end()
	<-sent
}

// The writes of a timely connection fail if they take longer than oneTime.
type timely struct{ net.Conn }

func (c timely) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(oneTime))
	return c.Conn.Write(p)
}

// fail answers a request that the process has not answered.
func (p *pass) fail(err error) {
	var refused *dialError
	var unread error
	if p.body != nil {
		unread = p.body.answer()
	}
	switch {
	case unread != nil: // which also ends the context
		err = unread
	case p.ctx.Err() != nil:
		err = errEnded
	case errors.As(err, &refused):
		err = refused.error
	case err != errAnswer:
		err = errors.New(p.to.backend.Lost(err))
	}
	p.deadline()
	p.Refuse(p.w, err)
}

var errEnded = errors.New("the server has ended this request")

// A body is a client's body that is passed on while it comes. The transport reads once more after the
// last byte. The process can have answered by then, and net/http closes a body when the answer begins:
// the error of that read would cut the answer.
type body struct {
	from io.Reader
	rc   *http.ResponseController
	eof  bool

	// Guarded by mu.
	mu        sync.Mutex
	answering bool  // the server sets the deadlines: it gives the rest of the body little time
	err       error // the error of a read before the answer
}

func (b *body) Read(p []byte) (int, error) {
	if b.eof { // a deadline would end the wait for the answer, too
		return 0, io.EOF
	}
	b.mu.Lock()
	if !b.answering {
		b.rc.SetReadDeadline(time.Now().Add(oneTime))
	}
	b.mu.Unlock()
	n, err := b.from.Read(p)
	if b.eof = err == io.EOF; err != nil && !b.eof {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.answering {
			b.err = &BodyError{err}
		}
	}
	return n, err
}

// answer notes that the answer begins, and returns the error of a read before, if there was one.
func (b *body) answer() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answering = true
	return b.err
}

// Close does nothing. The server closes the body, and would wait for the rest of it here.
func (b *body) Close() error { return nil }
