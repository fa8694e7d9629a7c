// Package jobs runs work in the background and keeps a record of it: every execution of this server
// is a [Job].
//
// A [Registry] owns every job. It starts one goroutine for each, which calls the job's [Runner] and
// ends the job when that returns. Nothing else ends a job: [Job.Stop] asks the runner to stop. The
// runner escalates as far as needed and records the rungs it used in the [Receipt]. A job's context
// comes from the registry, never from a request: a caller that stops waiting does not end the job.
//
// The rules that the rest of the server relies on:
//
//   - A status changes only along the table in status.go. Any other move is a defect: it panics or,
//     if [Config].Bug is set, is reported there; the runner is then asked to stop, and the job
//     fails with an internal error. News about a job that has moved on is no move; it is dropped.
//   - At most [Config].MaxRunning jobs run at once. Others are queued until [Port.Admit] lets them
//     run, in the order of their starts.
//   - Output is an append-only log that is read by cursor; see package output.
//   - The end has one order: the runner has drained its output, the log is marked, the status is
//     final, waiters are released. If a status is final, everything written up to the end can be
//     read.
//   - The truth wins: a job that finished although it was asked to stop has completed.
//
// A [Record] describes a job in plain data, which a [Store] keeps and which reads back from its
// JSON. The registry shows what earlier registries have left in the store as jobs that have ended,
// see [Job.Past]. [Live] has the questions that only a running job can answer.
//
// A job can run at another place, in another engine ([Spec].Place). Its runner mirrors what that engine reports,
// see [Port.Mirror]: what can't be true of a job is an error and never a defect. Its timeout runs there, and it
// takes no place among those that may run here.
//
// Cursors and sizes are numbers of bytes of the log; times are of this machine's clock. An id is a
// ULID, 26 characters that can't be guessed. The errors to act on are [ErrEnded], [ErrNotReading],
// [ErrShutdown], a *[NotFoundError], an *[AmbiguousError], a *[TooManyError] and a *[TakenError].
//
// Begin with the example, then status.go, [Port] (the runner's side of a job) and [Job] (the
// clients' side). The mirror is in mirror.go.
//
// The package knows nothing of processes, Python, terminals or protocols; those packages supply
// runners. A runner's panic is not recovered: code that can crash belongs in another process.
package jobs
