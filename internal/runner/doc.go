// Package runner has the code that all runners with processes share. It translates the reports of
// packages process and waiting, about a process tree and its terminal, into the terms of package
// jobs. It knows no Python and no protocol, and starts and stops nothing: package process escalates
// a stop, and takes a [jobs.Port] as its Requests.
//
// Begin with receipt.go, which says how a process ended. terminal.go connects a terminal and
// reports what a program waits for; scarce.go explains which limit refused a start.
package runner
