package pyrepl

import (
	"context"
	"slices"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// A Request is something that a job asks of the namespace.
type Request = worker.Request

// Ask returns the runner of a request about code. Its job waits for its turn like any other, but
// only for patience: then it leaves the queue, and will not run.
func (s *Session) Ask(q Request, code string, patience time.Duration) jobs.Runner {
	return &exec{s: s, work: worker.Work{Code: code, Request: &q}, patience: patience}
}

// A busyError says why a request was not run.
type busyError struct{ *BusyError }

func (e *busyError) Error() string {
	if e.Waits {
		return e.BusyError.Error()
	}
	return e.BusyError.Error() + "; ask again later"
}

// await waits for the job's turn.
func (e *exec) await(ctx context.Context) error {
	if e.work.Request != nil {
		timer := time.NewTimer(e.patience)
		defer timer.Stop()
		select {
		case <-e.turn.ready:
		case <-ctx.Done():
		case <-timer.C:
			if err := e.s.leave(e.turn); err != nil {
				return err
			}
		}
	}
	return e.s.await(ctx, e.turn)
}

// leave takes t out of the queue, and returns an error that names the holder of the turn. If t was
// not in the queue, because its turn has come or will not come, it returns nil.
func (s *Session) leave(t *ticket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.queue, t)
	if i < 0 {
		return nil
	}
	s.queue = slices.Delete(s.queue, i, i+1)
	return &busyError{s.busy()}
}
