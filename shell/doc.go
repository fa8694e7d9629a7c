// Package shell runs commands as jobs, each on its own terminal or on pipes.
//
// A [Command] is a [jobs.Runner]. It leads its own session, so that its full process tree can be
// ended. It has ended when its leader has been reaped and everything that its terminal or pipes
// held at that moment has been read. Processes that it leaves behind keep their terminal, and their
// late output is kept; the job's cancel ends them, or else the end of the server.
//
// A [Session] runs command lines one at a time and carries directory, exported variables, umask and
// options from one to the next, and in bash functions, aliases and the other variables. The shell of
// each reports them over a descriptor when it ends.
//
// That a command waits for input is concluded from the kernel's evidence alone (see
// internal/terminal/waiting), never from its output.
//
// Errors are in the job's receipt, also if a command could not be started. Only input is refused
// with an error, which says how to fix it.
//
// Who owns what: a run owns its handle, terminal or pipes, pumps and watcher. It closes them when
// nothing is left of the command's tree, which can be long after the end of the job.
//
// Begin with the example, then command.go: a run from its start to its end. interrupt.go is the
// first step of a cancel. linger.go ensures that the servers that a line detaches survive its shell.
// session.go is about sessions, state.go about what they carry.
//
// The package knows no protocol, no Python and no tools.
package shell
