package httpserver

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"time"
)

const (
	headerTime  = 10 * time.Second  // for the headers of a request
	bodyTime    = 30 * time.Second  // for its body
	writeTime   = 30 * time.Second  // for one write of the answer; the answer as a whole has no limit
	idleTime    = 120 * time.Second // of a connection between two requests
	sessionTime = 30 * time.Minute  // of a session of the older era between two requests

	headerSize  = 64 << 10
	bodySize    = 16 << 20
	maxInFlight = 2048 // requests of one caller
)

// readMessage reads the body of a request, within its limits, before anything waits for it: the SDK
// would read it without a limit of time. It reports whether it could; if not, it has answered.
func readMessage(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost {
		return true
	}
	// A page of any origin can send other types without asking first.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return false
	}
	body, err := readBody(w, r)
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case err == nil:
		r.Body = io.NopCloser(body)
		return true
	case errors.As(err, &tooLarge):
		http.Error(w, "the body is too large: 16 MiB are allowed", http.StatusRequestEntityTooLarge)
	case errors.As(err, &network) && network.Timeout():
		http.Error(w, "the body did not come within 30 s", http.StatusRequestTimeout)
	default:
		http.Error(w, "reading the body: "+err.Error(), http.StatusBadRequest)
	}
	return false
}

func readBody(w http.ResponseWriter, r *http.Request) (*bytes.Buffer, error) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // until the end of the body
	if r.ContentLength > bodySize {
		return nil, &http.MaxBytesError{Limit: bodySize} // before it is read
	}
	body := new(bytes.Buffer)
	body.Grow(int(min(max(r.ContentLength, 0), 64<<10))) // what a client announces need not come
	_, err := io.Copy(body, http.MaxBytesReader(w, r.Body, bodySize))
	return body, err
}
