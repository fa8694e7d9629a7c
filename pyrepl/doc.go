// Package pyrepl runs Python as jobs in sessions whose variables persist.
//
// A [Session] is a named namespace. One worker process at a time holds it; the jobs of a session
// run one at a time, in order. A worker can die and be replaced, and that is always reported: in
// the receipt of the job that saw it, in those of the jobs that were queued behind it (which are
// not run: a second step must not run in an empty namespace), and in the first job of the new
// worker.
//
// Go and a worker talk over one socketpair: JSON lines, and the pipes of each job as descriptors
// that travel along. Each event begins with the worker's random token, so nothing that a program
// writes to a descriptor can pass for one. The worker has a single thread, which runs user code;
// while a job runs it reads only an answer that it asked for. What must be known of a busy worker
// is known here, and an interrupt is a signal.
//
// Who owns what: a [Session] owns its worker and the queue; a worker owns its process, terminal,
// channel, pipes and pumps; a job's run borrows the worker for one turn. The death of a worker is
// its wait status, never an end of file.
//
// What goes wrong in a job is in its receipt. The methods of a session fail only if it has been
// closed or its worker does not answer. Start-up errors name the settings that [Config] names.
//
// Begin with the example, then [Session] and exec.go (one job from its turn to its end; outcome.go
// is how it ended). queue.go is whose turn it is, reset.go the end of a namespace, exit.go the exit
// of an idle worker, channel.go and messages.go what Go and a worker say to each other, and
// worker/main.py the other side.
//
// The package knows no protocol and no tools, and of processes only what internal/process and
// internal/procfs offer.
package pyrepl
