//go:build unix

// Package process starts processes and ends them, whole trees at a time.
//
// Rules
//   - Every process that is meant to leave our session is started through an Owner: what else appears among our
//     children outside our session is taken for an orphan of a job, adopted, and reaped. Children that other code of
//     this program starts in our own session are never touched.
//   - A child has one waiter, which parks in Go's poller and costs no thread. Nobody waits for any child: orphans are
//     reaped by number, and only those that are not in the table of what was started.
//   - Start and entry into that table are one step under a read lock, and so are reaping and leaving it. The look at
//     our children takes the write lock, so that it never takes a started child for an orphan.
//   - A signal goes to a number only while something that was seen to belong to the job holds it: by pidfd and start
//     time for one process, to a group while a member lives.
//   - Every process ends by Handle.Climb, Owner.Shutdown or the guard. There is no other place that kills.
//   - Program text, environment and working directory come in the Spec. Signals that this program does not want are
//     taken with signal.Notify, never with signal.Ignore, which children would inherit.
//
// Who owns what. A Handle is one started process and the tree that grows from it; whoever started it asks it to end.
// The table of children is one for the whole process, for the kernel hands orphans to the process and not to an Owner.
// Terminal and files of a Spec stay the caller's.
//
// Begin with the example, then Owner.Start (owner.go), Handle, the ladder (ladder.go, kill.go), how a tree is found
// (family.go, family_linux.go, orphan.go) and the guard (guard.go here, guardmain.go in its own process).
//
// The package knows no job, session or protocol; it knows a terminal only as what package tty makes of it.
package process
