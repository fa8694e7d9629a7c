//go:build unix

// Package process starts processes and ends them, a full process tree at a time.
//
// Rules
//   - Every process that is meant to leave our session is started through an [Owner]. Any other
//     child of ours outside our session is assumed to be an orphan of a job: it is attributed and
//     reaped, unless [Owner.Adopt] makes it a started one. Children that other code of this program
//     starts in our own session are never touched.
//   - A child has one waiter, see package child. Nothing calls wait4(-1): orphans are reaped by
//     pid, and only those that are not in the table of started children.
//   - Starting a child and entering it in that table are one step under a read lock; so are reaping
//     it and leaving the table. Listing our children takes the write lock, so that a started child
//     is never mistaken for an orphan.
//   - A signal goes to a pid only while a process that was seen to belong to the job has it. For
//     one process, pidfd and start time prove that; a group keeps its id while a member of it
//     lives.
//   - An error never means that a process is gone. A process that could not be inspected counts as
//     alive, and a failed scan proves nothing and is repeated. After 2 s the result is "could not
//     be checked", and no survivors are named, see package procset.
//   - Every process ends by [Handle.Stop], [Owner.Shutdown] or the guard. Nothing else kills.
//   - Program text, environment and working directory come in the [Spec]. Signals that this program
//     does not want are caught with signal.Notify, never ignored with signal.Ignore, which children
//     would inherit.
//
// Who owns what. A [Handle] is one started process and the tree that grows from it; the caller that
// started it stops it. The program has a single table of children, because the kernel gives orphans
// to the program and not to an Owner. Terminal and files of a Spec stay the caller's. The guard,
// the process that kills the remaining processes if this program is killed, is replaced at the next
// start of a process if it has exited.
//
// Errors to act on: the errno for a start, [procfs.ErrGone] for a signal,
// StopResult.Err and the error of [Handle.Settle] for a tree that could not be checked.
//
// Begin with the example, then Owner.Start (start.go, adopt.go), Handle (handle.go), Stop
// (stop.go), how a tree is found (tree.go, scan.go) and how an orphan is attributed to a job
// (orphans.go, ancestry.go). Package procset ends what a scan finds; the guard's own program is
// package guard.
//
// The package knows no job, session or protocol; it knows a terminal only as package tty shows it.
package process
