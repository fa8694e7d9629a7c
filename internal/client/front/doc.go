// Package front is the process that a client starts. It runs no job, so that nothing that a job
// does can end it: the jobs are in an engine, which is another process. If the engine dies, the
// client keeps its server.
//
// The front answers the handshake and the lists of tools itself, by the server and the transport
// that an engine has too. An engine is attached when a request needs one; a server that is not used
// has none. From then on the front passes messages on, in the order in which they came, and holds
// one each way. It keeps what a new engine has to know of the connection: the client's initialize
// and its subscriptions.
//
//   - An engine that dies takes no call along: the front answers those in flight, and the next
//     request attaches another engine. After three deaths within ten seconds calls are refused for
//     ten seconds.
//   - A signal, or the end of input while the client still reads the output, is a goodbye, and the
//     engine learns it at once. If the client's end of the output is closed too, the client is
//     lost: the connection to the engine then ends without a goodbye.
//   - Ids are those of the front on the way to an engine, so that no answer can be taken for that
//     of another call.
//
// Begin with Serve. front.go follows the messages of the client, link.go those of an engine.
package front
