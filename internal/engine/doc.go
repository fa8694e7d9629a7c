// Package engine is the part of a server that outlives its connections: the registry of jobs, the
// Python sessions, the environment that jobs run in, and the order in which all of it ends.
//
// An [Engine] is made once, by [New], which starts no process and touches no disk: a client that
// only lists the tools pays for neither. Every connection has a [Scope], made by [Engine.Scope],
// which says whose jobs and sessions it can see and where its jobs start. The engine makes runners
// and sessions for a scope; the front end starts them as jobs of [Engine.Jobs], under the scope's
// tenant. Methods of an Engine can be called by several goroutines at once and do not wait: what
// takes time is done by the runner. Their errors are shown to clients and say how to fix the problem;
// those of a setting name its REPL_ variable.
//
// [Engine.Close] ends every job, every session and every process; the engine owns all of them. It
// has a goroutine of its own only while it closes.
//
// The package knows no flag, no variable of the server's own environment and no protocol. What a
// person chose comes in by [Config]; package report and the front end put into words what a client
// sees.
//
// Begin with the example and engine.go; sessions.go is about Python, environment.go about what jobs
// find around them, status.go about server_status.
package engine
