// Package sockets is how the processes of one user find each other and begin to talk: the front
// that a client starts, the engine that has the jobs, and the commands of a person.
//
// An engine listens at a Unix socket in a directory that only its user can open ([Open]). The
// socket's name is IDENTITY-PID. The [Identity] is a hash of everything that an engine is
// configured by and of where it runs, so a front finds the engines that it can take over by their
// names alone.
//
// Each connection begins with one line of JSON, the [Hello], which the engine answers by one line:
//
//	welcome {…}        followed by a Welcome; from then on the socket speaks MCP, or HTTP with a page
//	busy               another client has the engine
//	protocol N VERSION the hello has another protocol number than the engine, which has number N
//	refused: REASON    for people
//
// The hello has at most 1 MiB, and both lines must arrive within 2 s. These rules and the
// protocol's number in a hello stay the same in every protocol, so that programs of different
// versions understand each other's refusals.
//
// After that the client's side says in band that it leaves ([Goodbye]). A connection that ends
// without it is lost. The names of engines that were killed remain; the first process that finds
// one of them removes it.
package sockets
