// Package channel joins an engine in a sandbox with the process outside that started it.
//
// The process outside is the [Outer], the engine the [Inner] end. The engine has no directory of
// sockets, no name and no network, so it asks the outer process for what needs them:
//
//   - It listens for other clients and for commands. The outer process accepts their connections,
//     checks who they are, because only it can see that, and hands each on as a descriptor.
//   - It asks what the other engines of the workspace keep.
//   - It gives the outer process the socket at which jobs reach the proxy.
//
// The outer process says when a signal ends the engine, because bubblewrap passes no signal on, and
// what the proxy has refused.
//
// Jobs can take the inner end over: they run as the user that the engine runs as. So the outer end takes
// what it receives for the input of a stranger. It has no request that names a path or a process, and
// its answers hold nothing that a job must not know.
//
// The channel is a pair of Unix sockets that keep the bounds of messages. A message is JSON, and one
// descriptor can come with it.
package channel
