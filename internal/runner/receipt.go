//go:build unix

package runner

import (
	"context"
	"errors"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process"
	"asyncrepl/jobs"
)

// NotRun returns the outcome of a job that was stopped before its turn. ctx is the job's.
func NotRun(ctx context.Context) jobs.Outcome {
	rec := jobs.Receipt{End: jobs.NotRun, By: jobs.Unknown}
	if st, ok := errors.AsType[*jobs.Stop](context.Cause(ctx)); ok {
		rec.Stop, rec.By = st, st.By
	}
	return jobs.Outcome{Receipt: rec}
}

// Ended reports whether the leader of h has ended. A leader that could not be killed has not ended,
// although its job has ended.
func Ended(h *process.Handle) bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

// ExitReceipt returns a receipt that says how the leader of h ended. Its By is the cause if no stop
// was asked for.
func ExitReceipt(h *process.Handle) jobs.Receipt {
	if !Ended(h) {
		return jobs.Receipt{End: jobs.Alive}
	}
	x := h.Exit()
	switch {
	case x.OOM:
		return jobs.Receipt{End: jobs.OutOfMemory, By: jobs.Limit}
	case x.Signal != 0:
		return jobs.Receipt{End: jobs.Signaled, Signal: SignalName(x.Signal), By: jobs.Blame(ownFault(x.Signal))}
	}
	return jobs.Receipt{End: jobs.Exited, Code: x.Code, By: jobs.Program}
}

// Processes returns the names of processes for a receipt.
func Processes(ps []procfs.Process) []jobs.Process {
	var named []jobs.Process
	for _, p := range ps {
		named = append(named, jobs.Process{PID: p.PID, Program: p.Program})
	}
	return named
}
