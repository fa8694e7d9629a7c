// Package mcpserver is the engine as an MCP client sees it: tools whose
// arguments become jobs, and jobs that become the text of replies.
//
// An [Engine] is built once and shared by all connections. [New] makes one MCP server for each of them,
// over any transport, and shows it what its [Scope] covers. Jobs belong to the engine, calls and waits
// to the connection: a cancelled call, a client that leaves, or a shutdown ends a wait and never a job.
// The server keeps no reading position for a client; a repeated call is answered alike.
//
// Handlers know no transport. One that keeps calls in order, or that knows which answers reach the
// client, attaches a ticket to each request; see ticket.go.
//
// What a client did wrong is the result of a tool, marked as an error, and names
// the remedy; protocol errors are for protocol faults. What a client may read is
// text only: clients that are given structured content hide the text from the
// model. Programs read resources: job://{id} is a [Record] in JSON, and
// job://{id}/output{?cursor,view} the output, whose parts tell by a [Stretch]
// where they lie and where to go on. resources/list goes through the jobs of the
// scope, newest first. What can't be read is an error -32602 that names the
// remedy, in the words of the tools.
//
// Begin with the example, then tools.go (the table of all tools), one handler in
// execute.go, and report.go, which puts what is known of a job into words.
//
// Besides internal/stdio this is the only package that knows the MCP SDK. It knows no process, no
// Python and no shell: what runs is made by the [Runners] it is handed.
package mcpserver
