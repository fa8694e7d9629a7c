// Package carry gets in at a place. It starts a carrier, which is any program that joins its standard input
// and output to a command there (ssh, srun, kubectl exec), finds or brings our program, and starts it.
//
// Rules
//   - The command there is /bin/sh, which reads a script from its input. So any login shell will do, and a
//     carrier needs to quote nothing.
//   - Script and carrier take turns: nothing is sent before the script asks for it. A shell that reads ahead
//     of what it executes therefore takes nothing away from the program, and neither does a login shell.
//   - Lines that begin with our mark are the script's. All others are words of the carrier, the login shell or
//     setup: the last of them are kept for the error. What comes from there is bounded and escaped.
//   - The program is found by its hash in async-repl/bin of the user's cache directory, in ~/.cache, or in
//     async-repl-UID of the directory for temporary files; else by its version on the PATH; else it is carried
//     into the first of these directories that takes it and from which programs may be executed.
//   - All of it takes 30 s at most, and longer only while our program is carried and moves.
//   - A carrier leads a process group of its own in our session, so that package process takes neither it nor
//     its helpers for a job's. [Pipe.Close] kills and reaps the group.
//
// The package knows no protocol beyond the [far.Greeting], and a place only by its carrier. Begin with Open
// (carry.go), then read the script (script.go).
package carry
