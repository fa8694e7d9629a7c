// Package runner holds what the runners that start processes share: it puts what packages process
// and waiting say of a process tree and its terminal into the terms of package jobs. It knows no
// Python and no protocol, and starts and stops nothing: the escalation of a stop is package
// process's, which takes a [jobs.Port] as its Requests.
//
// Begin with receipt.go, how a process ended; terminal.go is a terminal with all that is connected
// to it, and what a program waits for, scarce.go what helps when a limit refused a start.
package runner
