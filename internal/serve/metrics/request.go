package metrics

import "time"

// A Request is one request of a client that has been answered or given up, or a further call of a
// request with several.
type Request struct {
	Time     time.Time // when it began
	Duration time.Duration
	Tenant   string // "" if it was refused before the caller was known
	Era      string // of the protocol; "" if it is not a request of the protocol
	Method   string // of the protocol, such as tools/call, or of HTTP, such as GET
	Path     string // of HTTP, such as /mcp, or /files/ for all below it; "" if the server serves no such one
	Tool     string // that was called; "" if the server has no such tool
	Job      string // the id of the job that the reply is about, or ""
	Status   int    // of HTTP
	Result   Result
	Bytes    int64 // of the answer
}

// A Result says how a request went.
type Result string

const (
	OK        Result = "ok"
	Error     Result = "error"     // of a tool, or of the protocol
	Refused   Result = "refused"   // by its status of HTTP
	Closed    Result = "closed"    // the client left before the answer
	Cancelled Result = "cancelled" // by the client, which waits for no answer
)
