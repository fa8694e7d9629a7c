// Package pyrepl runs Python as jobs in sessions whose variables persist.
//
// A [Session] is a named namespace. One worker process at a time holds it; the jobs of a session
// run one at a time, in order. A worker can die and be replaced, and that is always reported: in
// the receipt of the job that saw it, in the receipts of the jobs that were queued behind it (which
// are not run: a second step must not run in an empty namespace), and in the first job of the new
// worker.
//
// Who owns what: a [Session] owns its worker and the queue; a job's run borrows the worker for one
// turn. Package pyrepl/worker drives the process. A busy worker answers no questions, so the
// session remembers what it reported last.
//
// What goes wrong in a job is in its receipt. The methods of a session fail only if it has been
// closed or its worker does not answer.
//
// Begin with the example, then [Session] and exec.go (one job from its turn to its end) with
// outcome.go (how the job ended). queue.go gives jobs their turns, history.go keeps the code that
// was run, reset.go ends a namespace, exit.go lets an idle worker exit, and branch.go forks one.
//
// The package knows no protocol and no tools, and of processes only what internal/process and
// internal/kernel/procfs offer.
package pyrepl
