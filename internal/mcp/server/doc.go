// Package server serves an engine to MCP clients. Its tools turn arguments into jobs, and jobs
// into replies.
//
// An [engine.Engine], or another [Backend], is built once and shared by all connections. [New]
// makes one MCP server for each connection, over any transport; its client sees the jobs that its
// [engine.Scope] covers. Jobs belong to the engine, calls and waits to the connection: a cancelled
// call, a client that leaves, or a shutdown ends a wait and never a job. The server keeps no
// reading position for a client: the same call gives the same answer.
//
// Handlers know no transport. One that keeps calls in order, or that knows which answers reach the
// client, attaches a [delivery.Ticket] to each request.
//
// A client's mistake is a result marked as an error that says how to fix it. Protocol errors are
// for faults of the protocol. Replies are text and blocks, never structured content: clients that
// get it hide the text from the model.
//
// Programs read resources. job://{id} is a [report.Document] in JSON. job://{id}/output{?cursor,view,wait}
// is the output; each part has a [resource.Range], which says where to continue. resources/list
// returns the jobs of the scope, newest first; clients are notified of new ones. A resource that
// can't be read is an error -32602 in the words of the tools.
//
// Begin with the example, then read tools.go (the table of all tools) and execute.go (one handler).
// Package arguments reads what a call is given, package report has the words of replies, package
// resource reads what programs ask for, and refusal.go is the one place where errors become text.
//
// Only this package, delivery and the transports know the MCP SDK. It knows no process, no Python
// and no shell: the Backend makes the runners of jobs.
package server
