package pyrepl

import (
	"context"
	"errors"
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

// errLate says why a request was not run that was the next one in its session.
var errLate = errors.New("other jobs run, and its turn did not come in time; ask again later")

// await waits until it is the job's turn in the session and one more job may run.
func (e *exec) await(ctx context.Context, p *jobs.Port) error {
	patient := ctx
	if e.work.Request != nil {
		var cancel context.CancelFunc
		patient, cancel = context.WithTimeoutCause(ctx, e.patience, errLate)
		defer cancel()
		select {
		case <-e.turn.ready:
		case <-patient.Done():
			if ctx.Err() != nil {
				break
			}
			if err := e.s.leave(e.turn); err != nil {
				return err
			}
		}
	}
	if err := e.s.await(ctx, e.turn); err != nil {
		return err
	}
	if err := p.Admit(patient); err != nil {
		e.s.release(e.turn, "")
		return err
	}
	return nil
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
