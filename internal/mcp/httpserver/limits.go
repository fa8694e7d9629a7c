package httpserver

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	headerTime  = 10 * time.Second       // bounds reading the headers of a request
	bodyTime    = 30 * time.Second       // bounds reading its body
	writeTime   = 30 * time.Second       // bounds one write; the full answer has no limit
	lingerTime  = 500 * time.Millisecond // lets a client read the answer before the close
	idleTime    = 120 * time.Second      // bounds how long a connection waits for its next request
	sessionTime = 30 * time.Minute       // ends a session of the older era that gets no request

	headerSize  = 64 << 10
	bodySize    = 16 << 20
	maxInFlight = 2048 // requests of one caller

	callerBodies = 64 << 20  // bytes of the bodies of one caller's requests in flight
	allBodies    = 256 << 20 // the bodies of all requests in flight
)

// readMessage reads the body of a request, within its limits, before anything waits for it: the SDK
// would read it without a limit of time. It reports whether it could; if not, it has answered. What
// it read stays in memory until the request is over, and has its room until then.
func readMessage(w http.ResponseWriter, r *http.Request, room *claim) (body []byte, ok bool) {
	if r.Method != http.MethodPost {
		return nil, true
	}
	// A page of any origin can send other types without asking first.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	read, err := readBody(w, r, room)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		r.Body = io.NopCloser(read)
		return read.Bytes(), true
	case err == errCallerFull:
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err == errFull:
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case errors.As(err, &tooLarge):
		http.Error(w, "the body is too large: 16 MiB are allowed", http.StatusRequestEntityTooLarge)
	default:
		refuseBody(w, err)
	}
	return nil, false
}

// refuseBody answers a request whose body can't be read.
func refuseBody(w http.ResponseWriter, err error) {
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		http.Error(w, "the body did not come within 30 s", http.StatusRequestTimeout)
		return
	}
	http.Error(w, "reading the body: "+err.Error(), http.StatusBadRequest)
}

// readBody reads a body, for which [Server.bounded] has set the deadline.
func readBody(w http.ResponseWriter, r *http.Request, room *claim) (*bytes.Buffer, error) {
	if r.ContentLength > bodySize {
		return nil, &http.MaxBytesError{Limit: bodySize} // the body is not read
	}
	body := new(bytes.Buffer)
	body.Grow(int(min(max(r.ContentLength, 0), 64<<10))) // a client may announce more than it sends
	room.from = http.MaxBytesReader(w, r.Body, bodySize)
	_, err := io.Copy(body, room)
	return body, err
}

var (
	errCallerFull = errors.New("the requests in flight with this token have 64 MiB together, as much as is allowed: wait until some are answered")
	errFull       = errors.New("the requests in flight have 256 MiB together, as much as is allowed: try again later")
)

// A claim is the room that a body takes, of its caller's and of all: as much as has come of it.
type claim struct {
	from     io.Reader
	own, all *semaphore.Weighted
	size     int64
}

func (c *claim) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if !c.own.TryAcquire(int64(n)) {
		return 0, errCallerFull
	}
	if !c.all.TryAcquire(int64(n)) {
		c.own.Release(int64(n))
		return 0, errFull
	}
	c.size += int64(n)
	return n, err
}

func (c *claim) release() {
	c.own.Release(c.size)
	c.all.Release(c.size)
}

// isBatch reports whether a body has several messages.
func isBatch(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) }
