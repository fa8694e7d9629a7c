// Package stdio carries MCP over one stream, one JSON message a line, beneath the SDK. It knows no
// tools and no jobs, and uses the SDK for its message types and its Transport interface only. The specification is
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports.
//
// The SDK's own transport ends the session at the first bad line, drops the answers that are due at
// the end of input, and changes ids. This one keeps these rules:
//
//   - Every line is checked before the SDK sees it: UTF-8, exactly one JSON value, no batch, a
//     usable id. A line that fails is answered with an error, and only that line is lost.
//   - Ids go back exactly as the client wrote them. An id is free again when its answer is queued.
//     A call whose id is in flight is refused without an id, so that the first call stays in
//     flight.
//   - A cancelled call gets no answer.
//   - At the end of input, calls in flight are answered normally for [Transport.Drain]. A failed
//     write counts as an end of input after which no answer is owed.
//   - Once input has ended and [Transport.Cut] is done, nothing more is written.
//   - Memory is bounded. A client that does not read its answers blocks its own calls, and is
//     refused further ones. Its input is read all the same, or its end would not be seen.
//   - Calls of tools can be handed over one at a time, see [Transport.Ordered].
//   - Messages can be diverted before the SDK gets them, see [Transport.Divert].
//
// Everything that changes while a connection is served is one struct, inFlight, and only
// conn.update changes it. A connection has two goroutines, one that reads lines and one that writes
// the queue. Both end with Close, except that a read can outlive it if closing the stream does not
// interrupt reads, as with a standard input.
//
// Begin with conn.go, which follows a message in and an answer out. inflight.go holds the state,
// framing.go turns lines into messages and back.
package stdio
