//go:build unix

// Package listening finds the TCP ports on which the processes of a job listen.
//
// Rules
//   - The kernel's table of listening sockets decides, and the descriptors of a process say which
//     of them are its own. Output is no evidence.
//   - Only sockets of our own network namespace count: a port of another one can't be reached at
//     its address from here.
//   - A failed reading is no evidence: the last report stands, and the next poll reads again.
//   - A port belongs to the job during which it was first seen. It is not reported for a later job
//     of the same tree.
//
// A [Tree] belongs to the run of a job, or to the session whose jobs share its processes. One
// goroutine polls for all trees while there are any: ten times a second during the first seconds of
// a job, and once a second later. It reads the table, which takes 40 µs however many jobs there
// are, and searches descriptors only if the table has a socket that is new.
//
// Begin with the example, then tree.go. The package starts no process, and knows neither jobs nor
// terminals.
package listening
