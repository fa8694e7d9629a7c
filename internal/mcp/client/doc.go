// Package client speaks to an MCP server as a coding agent's client does: JSON-RPC, one message
// a line over a stream, or streamable HTTP in either era of the protocol. The demo, the tests and
// the benchmarks use it.
//
// A Client can be used by several goroutines at once. Start begins a call, and Pending.Reply waits
// for its answer, so that several calls can be in flight; Call does both. Over a stream a goroutine
// of the client reads, and ends with the reader that New was given; the caller owns that reader and
// closes it. Over HTTP each request has a goroutine until it is answered, and a caller that stops
// waiting closes its request.
//
// A call that the tool refused is an error that wraps ErrTool. Any other error means that the
// server did not take part: a JSON-RPC error, a closed stream, or a context that ended.
//
// The package imports nothing of the server: a client knows of a server what the protocol says.
//
// Begin with Client; [Launch] starts a server for one, and [NewHTTP] reaches one that runs.
package client
