// Package keeper is the engine's side of clients that come and go. A [Keeper] gives an engine one
// client at a time, keeps the engine while none is there, and says when it ends.
//
// An engine's first client is connected before the engine runs. With the first job the Keeper also
// listens at a socket with a name (package sockets), where the next client finds it, and a person's
// commands at any time. These rules decide when an engine ends:
//
//   - After a goodbye it ends, or after [Config.LingerGoodbye].
//   - If a connection ends without a goodbye the client is lost. The engine continues for
//     [Config.Linger], and then ends.
//   - Without a client, an engine that has nothing to lose ends at once.
//   - At most four engines of a workspace wait for a client. If there are more, the one that was
//     left first ends.
//   - A signal ends it.
//
// Everything that changes is one struct, state, which only the goroutine of [Keeper.Run] reads and
// writes: connections send it functions. Run does not end the engine itself. It removes the name
// first, so that no client comes to an engine that ends.
//
// Begin with Run; conn.go follows a connection from its hello to its end.
package keeper
