// Package shell runs commands as jobs, on a terminal of their own or on pipes.
//
// A [Command] is a [jobs.Runner]. It leads its own session, so its whole tree
// can be ended; it ends when its leader has been reaped and what lay in its
// terminal or pipes at that moment has been read. Processes that it leaves
// behind keep their terminal, write late output, and are ended by the job's
// cancel, or with the server.
//
// That a command waits for input is stated on the kernel's evidence alone (see
// internal/tty): what it printed is never evidence.
//
// What goes wrong is told by the job's receipt, also that a command could not be
// started; only input is refused with an error, which names the remedy. Begin
// with the example, then command.go: a run from its start to its end.
//
// The package knows no protocol, no Python and no tools.
package shell
