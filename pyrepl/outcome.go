package pyrepl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"asyncrepl/internal/process"
	"asyncrepl/internal/runner"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// notRun returns the outcome of a job whose turn did not come, because of err.
func notRun(ctx context.Context, err error) jobs.Outcome {
	_, dropped := errors.AsType[*droppedError](err)
	st, stopped := errors.AsType[*jobs.Stop](context.Cause(ctx))
	if stopped && (!dropped || st.By == jobs.Shutdown) { // a shutdown stops all jobs before any loses its variables
		return runner.NotRun(ctx)
	}
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, By: jobs.Unknown, Detail: err.Error()}}
}

// notStarted returns the outcome of a job for which no worker could be started, because of err.
func notStarted(ctx context.Context, err error) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotStarted, By: jobs.Unknown, Detail: err.Error()}
	if st, ok := errors.AsType[*jobs.Stop](context.Cause(ctx)); ok {
		rec.Stop, rec.By = st, st.By
	}
	return jobs.Outcome{Receipt: rec}
}

// noRoom is what the loader says of a module in C that does not fit into a limit of memory. A library
// that catches that may call itself broken.
var noRoom = []byte("failed to map segment from shared object")

// outcome returns the outcome of code that has ended while its worker lives.
func (r *run) outcome(done worker.DoneEvent) jobs.Outcome {
	rec := jobs.Receipt{State: jobs.Kept, By: jobs.Program, Rungs: r.rungs, PendingTasks: done.Pending}
	rec.Names = jobs.NameChange{New: done.New, Gone: done.Gone, NewCount: done.NewCount, GoneCount: done.GoneCount}
	switch done.End {
	case "exit":
		rec.End, rec.Code, rec.Detail = jobs.Exited, done.Code, jobs.SysExit
	case "raised":
		rec.End, rec.Detail, rec.Exception = jobs.Raised, done.Error, done.Raised()
		if name, detail, _ := strings.Cut(done.Error, ": "); done.Memory || name == "MemoryError" || r.s.cfg.Memory > 0 && bytes.Contains(done.Exception, noRoom) {
			rec.End, rec.Detail = jobs.OutOfMemory, joined(r.s.limitText(), detail)
		}
		rec.Cause, rec.Subject = r.cause(done)
	default:
		rec.End = jobs.Returned
	}
	st := r.p.Stop()
	switch {
	case st == nil:
	case !done.Interrupted && !(r.handlesTerm && slices.Contains(r.rungs, jobs.Terminate)):
		rec.Rungs = nil // the code had ended by itself
	case strings.HasPrefix(done.Error, "KeyboardInterrupt"):
		rec.Stop, rec.By = st, st.By
	}
	if note := r.w.LeftOut(r.p.ID()); note != "" {
		rec.Notes = append(rec.Notes, note)
	}
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

// joined returns the texts that are not empty, with colons between them.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), ": ")
}

// limitText returns the limit of the session's memory, or "" if it has none.
func (s *Session) limitText() string {
	if s.cfg.Memory == 0 {
		return ""
	}
	return fmt.Sprintf("limit of %d MB", s.cfg.Memory)
}

// lostReceipt returns the receipt of a job that has lost its worker because of cause. It kills the
// worker if that is still alive.
func (r *run) lostReceipt(cause error) jobs.Receipt {
	var notes []string
	if cause != errAlive && !r.w.Ended() {
		r.w.Process().Stop(process.Ladder{From: jobs.Kill})
		notes = append(notes, cause.Error()+"; its worker was ended")
	}
	r.w.Drain()
	if note := r.w.LeftOut(r.p.ID()); note != "" {
		notes = append(notes, note)
	}
	rec := runner.ExitReceipt(r.w.Process())
	if limit := r.s.limitText(); limit != "" && (rec.Code != 0 || slices.Contains([]string{"SIGABRT", "SIGBUS", "SIGSEGV"}, rec.Signal)) {
		notes = append(notes, "its memory has a "+limit+", and code in C can crash or exit when it is reached")
	}
	rec.State, rec.Rungs, rec.Notes = jobs.Lost, r.rungs, notes
	if errors.Is(cause, worker.ErrChannelClosed) && rec.End != jobs.Alive {
		rec.By = jobs.Program
	}
	st := r.p.Stop()
	// A shutdown hangs up every process group itself, often before the rungs of the job's own stop.
	hungUp := st != nil && st.By == jobs.Shutdown && rec.End == jobs.Signaled
	if st != nil && (len(r.rungs) > 0 || rec.End == jobs.Alive || hungUp) {
		rec.Stop, rec.By = st, st.By
	}
	return rec
}
