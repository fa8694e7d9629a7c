// Command async-repl is an MCP server that gives a coding agent a persistent Python and real
// terminals, in which every execution is a job.
//
// Without a subcommand it serves MCP over standard input and output. This package reads the flags,
// the environment and the current directory, connects the other packages, and decides how the
// server ends at the end of input or on a signal. No other package does any of that. The table of
// commands is in main.go, and what a command does in the file of its name.
//
// The exit status is 0 if the connection ended normally, 1 if something failed, and 2 for a command
// line or a setting that can't be used. Standard output belongs to the protocol; messages for
// people go to standard error.
//
// Begin with the example, then main.go (the commands), settings.go (the settings) and serve.go
// (the start and end of a server). promise_test.go and end_test.go test the promises of the
// complete program.
package main
