//go:build unix

// Package people is the commands by which a person watches the jobs of agents and takes part: ps,
// logs, wait, send, cancel, attach, hook, page, doctor, and the completion of shells.
//
// [Run] runs one command. A command connects to every engine of its user in the role of a person,
// which takes no engine over and consumes no news, and uses the tools and resources of MCP as any
// client does. If no engine has a job, it asks a server over the records of past jobs
// ([Config].Past), which has the same tools.
//
//   - An engine that does not answer holds a command up for [sockets.HelloTime] at most. What it
//     was asked for is then missing, and the command says so.
//   - What a person types is never printed, logged or written.
//   - Results go to standard output, so that scripts can read them; everything else goes to
//     standard error.
//
// Begin with people.go (the table of commands), then engines.go (what a command talks to).
package people
