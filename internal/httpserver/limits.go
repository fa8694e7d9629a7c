package httpserver

import (
	"bytes"
	"errors"
	"io"
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

// readBody reads the body of a request, within its limits, before anybody waits for it: the SDK
// would read it without a limit of time. It reports whether it could; if not, it has answered.
func readBody(w http.ResponseWriter, r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(bodyTime))
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), 64<<10))) // what a client announces need not come
	_, err := io.Copy(&body, http.MaxBytesReader(w, r.Body, bodySize))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "the request is too large: 16 MiB are allowed", http.StatusRequestEntityTooLarge)
		return false
	case err != nil:
		http.Error(w, "the body of the request could not be read: "+err.Error(), http.StatusBadRequest)
		return false
	}
	// Or the connection would end with it while the call waits.
	rc.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(&body)
	return true
}
