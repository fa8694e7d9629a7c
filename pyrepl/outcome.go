package pyrepl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// notRun returns the outcome of a job whose turn did not come, because of err.
func notRun(ctx context.Context, err error) jobs.Outcome {
	_, dropped := errors.AsType[*droppedError](err)
	st, stopped := errors.AsType[*jobs.Stop](context.Cause(ctx))
	// A shutdown stops all jobs before any loses its variables.
	if stopped && (!dropped || st.By.EndsServer()) {
		return runner.NotRun(ctx)
	}
	rec := jobs.Receipt{End: jobs.NotRun, By: jobs.Unknown, Detail: err.Error()}
	if busy, ok := errors.AsType[*busyError](err); ok && busy.Waits {
		rec.Cause = jobs.OpenQuestion
	}
	return jobs.Outcome{Receipt: rec}
}

// notStarted returns the outcome of a job for which no worker could be started, because of err.
func notStarted(ctx context.Context, err error) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotStarted, By: jobs.Unknown, Detail: err.Error()}
	if st, ok := errors.AsType[*jobs.Stop](context.Cause(ctx)); ok {
		rec.Stop, rec.By = st, st.By
	}
	return jobs.Outcome{Receipt: rec}
}

// outcome returns the outcome of code that has ended while its worker lives.
func (r *run) outcome(done worker.DoneEvent) jobs.Outcome {
	rec := jobs.Receipt{State: jobs.Kept, By: jobs.Program, Rungs: r.rungs, PendingTasks: done.Pending, LoopServers: r.w.LoopServers()}
	rec.Names = jobs.NameChange{New: done.New, Gone: done.Gone, NewCount: done.NewCount, GoneCount: done.GoneCount}
	st, killed := r.p.Stop(), r.w.Killed()
	switch done.End {
	case "exit":
		rec.End, rec.Code, rec.Detail = jobs.Exited, done.Code, jobs.SysExit
	case "raised":
		rec.End, rec.Detail, rec.Exception = jobs.Raised, done.Error, done.Raised()
		if why, short := r.s.cfg.ShortOfMemory(done); short {
			rec.End, rec.Detail = jobs.OutOfMemory, why
		} else if killed > 0 && st == nil { // a child that the code needed, most probably
			rec.End, rec.Detail = jobs.OutOfMemory, joined(r.reachedLimit(), done.Error)
		}
		rec.Cause, rec.Subject = r.cause(done)
	default:
		rec.End = jobs.Returned
	}
	switch {
	case st == nil:
	case !done.Interrupted && !(r.handlesTerm && slices.Contains(r.rungs, jobs.Terminate)):
		rec.Rungs = nil // the code had ended by itself
	case isInterrupt(done.Error):
		rec.Stop, rec.By = st, st.By
	}
	rec.Notes = nonEmpty(r.w.LeftOut(r.p.ID()), r.killedNote(killed))
	out := jobs.Outcome{Receipt: rec}
	if done.Result != nil {
		out.Result, out.HasResult = *done.Result, true
		if done.ResultCut > 0 {
			note := fmt.Sprintf("the result is cut: %s more characters were not kept", view.Count(done.ResultCut))
			out.Receipt.Notes = append(out.Receipt.Notes, note)
		}
	}
	return out
}

// isInterrupt reports whether an exception is the interrupt of the code, or what DuckDB makes of one
// that reaches a query (measured with 1.4 and 2.0).
func isInterrupt(exception string) bool {
	return strings.HasPrefix(exception, "KeyboardInterrupt") || exception == "RuntimeError: Query interrupted" ||
		strings.HasPrefix(exception, "_duckdb.InterruptException:") || strings.HasPrefix(exception, "duckdb.InterruptException:")
}

// nonEmpty returns the texts that are not empty.
func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

// joined returns the texts that are not empty, with colons between them.
func joined(texts ...string) string { return strings.Join(nonEmpty(texts...), ": ") }

// killedNote says that the kernel killed so many processes while the job ran. Those that it killed
// since the job before count, too.
func (r *run) killedNote(n int) string {
	if n += r.killed; n == 0 {
		return ""
	}
	return fmt.Sprintf("the kernel killed %s of the session (%s)", view.CountOf(n, "process"), joined("out of memory", r.reachedLimit()))
}

// reachedLimit returns the limit of the session's memory if its processes have reached it together,
// else "": a process can be killed because the whole system is short of memory.
func (r *run) reachedLimit() string {
	if !r.w.LimitReached() {
		return ""
	}
	return r.s.cfg.MemoryLimit()
}

// lostReceipt returns the receipt of a job that has lost its worker because of cause. It kills the
// worker if that is still alive.
func (r *run) lostReceipt(cause error) jobs.Receipt {
	ended := ""
	if cause != errAlive && !r.w.Ended() {
		r.w.Process().Stop(process.Ladder{From: jobs.Kill})
		ended = cause.Error() + "; its worker was ended"
	}
	r.w.Drain()
	rec := runner.ExitReceipt(r.w.Process())
	if rec.End == jobs.OutOfMemory {
		rec.Detail = r.reachedLimit()
	}
	rec.State, rec.Rungs = jobs.Lost, r.rungs
	rec.Notes = nonEmpty(ended, r.w.LeftOut(r.p.ID()), r.s.cfg.CrashNote(rec))
	if errors.Is(cause, worker.ErrChannelClosed) && rec.End != jobs.Alive {
		rec.By = jobs.Program
	}
	st := r.p.Stop()
	// A shutdown hangs up every process group itself, often before the rungs of the job's own stop.
	hungUp := st != nil && st.By.EndsServer() && rec.End == jobs.Signaled
	if st != nil && (len(r.rungs) > 0 || rec.End == jobs.Alive || hungUp) {
		rec.Stop, rec.By = st, st.By
	}
	return rec
}
