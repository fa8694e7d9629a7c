// Package jobs runs work in the background and keeps what became of it: every
// execution of this server is a [Job].
//
// A [Registry] owns every job. It starts one goroutine for each, which calls
// the job's [Runner] and ends it when that returns; nothing else ends a job. To
// stop one is to ask its runner ([Job.Stop]), which then climbs the rungs it
// knows and tells in a [Receipt] what was needed. A job's context comes from
// the registry, never from a request: a caller who gives up ends his wait, not
// the job.
//
// The rules that the rest of the server leans on:
//
//   - A status changes only along the table in status.go. A move that is not
//     in it is a defect: it panics, or, with [Config.Bug] set, is told there,
//     the runner is asked to stop and the job fails as an internal error.
//     News about a job that has moved on is no move; it is dropped.
//   - Output is an append-only [Log] read by byte cursor. Reading drains
//     nothing, and what a cap or a full disk dropped is counted exactly.
//   - The end has one order: the runner has drained, the log is marked, the
//     status is final, waiters are released. Who sees a final status can read
//     all that was written up to the end.
//   - The truth wins: a job that finished although it was asked to stop has
//     completed.
//
// Cursors and sizes are bytes of the raw log, counted from its first; times are
// of this machine's clock. An id is a ULID, 26 characters that can't be guessed.
// Errors that a caller can act on are [ErrEnded], [ErrNotReading], [ErrShutdown],
// a *[NotFoundError] and a *[TooManyError].
//
// Begin with the example, then status.go, [Port] (a runner's side of a job),
// [Job] (its clients' side) and [Log].
//
// The package knows nothing of processes, Python, terminals or protocols; those
// packages supply runners. A panic of a runner is not recovered: what can crash
// belongs in a process of its own.
package jobs
