// Package mcpclient speaks to an MCP server as a coding agent's client does: JSON-RPC, one message
// a line. The demo, the tests and the benchmarks use it.
//
// A Client can be used by several goroutines at once. It reads in a goroutine of its own, which
// ends with the reader that New was given; the caller owns that reader and closes it. Start
// begins a call, and Pending.Reply waits for its answer, so that several calls can be in flight;
// Call does both.
//
// A call that the tool refused is an error that wraps ErrTool. Any other error means that the
// server did not take part: a JSON-RPC error, a closed stream, or a context that ended.
//
// The package imports nothing of the server: a client knows of a server what the protocol says.
//
// Begin with Client; [Launch] starts a server for one.
package mcpclient
