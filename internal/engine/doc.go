// Package engine is the part of a server that outlives its connections: the registry of jobs, the
// Python sessions, the environment that jobs run in, and the order in which all of it ends.
//
// A server makes one [Engine] with [New], which starts no process and touches no disk: a client
// that only lists the tools pays for neither. A server with several tenants makes [Tenants], which
// have one Engine each: an engine does not know about tenants.
//
// Every connection has a [Scope], which says where and how its jobs run. [Engine.Scope] makes it
// from a [Client]: the environment, the workspace, the times and the log that the client brings.
// Clients with different environments each have their own PATH, search for Python and installs.
// They share the jobs and the sessions: a session keeps the environment of the client that made it,
// whichever client uses it.
//
// The engine makes runners and sessions for a scope; the front end starts them as jobs of
// [Engine.Jobs]. Several goroutines can call methods of an Engine at once. Only Branch, and Create
// for a session with its own Python, can wait: the runners do everything else that takes time.
// Clients see the errors, which say how to fix the problem; if a setting is the cause, they name
// its REPL_ variable.
//
// The engine owns all jobs, sessions and processes, and [Engine.Close] ends them. The engine starts
// a goroutine only while it closes.
//
// The engine records its jobs in the state directory, see package history, and [Engine.Jobs] shows
// those of earlier engines in the workspace, too. The first call of [Engine.Killed] accounts for
// engines that were killed.
//
// The package knows no flag, no variable of the server's own environment and no protocol. [Config]
// holds the limits and directories that a person has chosen for the server. A Client holds the
// settings that differ between connections. Package report and the front end write the texts that a
// client sees.
//
// Begin with the example and engine.go; scope.go is about what clients bring, sessions.go about
// Python, create.go about new sessions, expiry.go about the end of idle ones, environment.go about
// what jobs find around them, status.go about server_status, killed.go about engines that were
// killed, tenants.go and ready.go about servers with several tenants.
package engine
