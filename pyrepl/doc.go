// Package pyrepl runs Python as jobs in sessions whose variables persist.
//
// A [Session] is a named namespace. One worker process at a time holds it; the
// jobs of a session run in order, one turn after the other. A worker may die
// and be replaced, and that is always said: in the receipt of the job that saw
// it, in those of the jobs that stood behind it in the queue (which are not
// run: a second step must not run in an empty namespace), and in the first job
// of the new worker.
//
// Go and a worker talk over one socketpair: JSON lines, and the pipes of each
// job as descriptors that travel along. Each event carries the worker's random
// token, so nothing that a program writes to a descriptor can forge one. The
// worker has a single thread, which runs user code; while a job runs it reads
// only an answer that it asked for. What must be known of a busy worker is
// known here, and an interrupt is a signal.
//
// Who owns what: a [Session] owns its worker and the queue; a worker owns its
// process, terminal, channel and pumps; a job's run borrows the worker for one
// turn. The death of a worker is its wait status, never an end of file.
//
// What goes wrong in a job is told by its receipt; the methods of a session fail
// with [ErrClosed], or with the error of the Python that [Config] names. Begin
// with the example, then [Session], exec.go (one job from its turn to its end),
// restart.go (the end of a namespace, and what stands behind it), channel.go
// (what is said between Go and a worker) and, on the other side, worker/main.py.
//
// The package knows no protocol and no tools, and of processes only what
// internal/process offers.
package pyrepl
