// Command async-repl is an MCP server that gives a coding agent a persistent
// Python and real terminals, in which every execution is a job.
//
// Without a subcommand it serves MCP over standard input and output. This
// package reads flags, environment and the current directory, wires the parts
// together, and decides what the end of input and what a signal ends; no other
// package does any of that.
//
// Its exit status is 0 when the connection ended as it should, 1 when something
// failed, and 2 for a command line or a setting that can't be used. Standard
// output belongs to the protocol; what is said to people goes to standard error.
//
// Begin with the example, then settings.go (what can be chosen), engine.go (how
// the parts are wired) and serve.go (how it ends). promise_test.go and
// end_test.go hold the whole program to what it promises.
package main
