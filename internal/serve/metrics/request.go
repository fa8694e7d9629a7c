package metrics

import "time"

// A Request is one request of a client that has been answered or abandoned, or a further call of a
// request with several.
type Request struct {
	Time     time.Time // the start of the request
	Duration time.Duration
	Tenant   string // "" if it was refused before the caller was known
	Era      string // the era of MCP; "" if the request is not one of MCP
	Method   string // the method of MCP, such as tools/call, or of HTTP, such as GET
	// Path is the path served: /mcp, or /files/ for all below it. It is "" if the server serves no
	// such path.
	Path   string
	Tool   string // the tool called; "" if the server has no such tool
	Job    string // the id of the job that the reply is about, or ""
	Status int    // the HTTP status
	Result Result
	Bytes  int64 // the size of the answer
}

// A Result says how a request went.
type Result string

const (
	OK        Result = "ok"
	Error     Result = "error"     // the tool failed, or the answer is an error of MCP
	Refused   Result = "refused"   // the HTTP status refuses the request
	Closed    Result = "closed"    // the client left before the answer
	Cancelled Result = "cancelled" // the client cancelled the call and waits for no answer
)
