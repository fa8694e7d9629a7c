package pyrepl

import (
	"context"
	"strings"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/checkpoint"
)

// A checkpoint is a branch of a session that does nothing: it keeps the variables as a job left
// them, for a restart that continues with a branch of it. Most of its memory is shared with the
// session until either changes it.

// Checkpoints keeps the newest checkpoints of the sessions of one tenant.
type Checkpoints = checkpoint.Set[dormant]

// A dormant session is the state of a checkpoint.
type dormant struct{ *Session }

// Ended says how the worker has ended, or returns "".
func (s dormant) Ended() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return "was ended"
	case s.w.Ended():
		return s.w.ExitText()
	}
	return ""
}

// Memory returns how much memory the worker shares with no other process, or 0 if that is not
// known.
func (s dormant) Memory() int64 {
	// An error means that it has ended or the system does not say.
	n, _ := procfs.PrivateMemory(s.State().PID)
	return n
}

// SetCheckpoints has the session keep its checkpoints in c, which it shares with other sessions. It
// must be called before the first job.
func (s *Session) SetCheckpoints(c *Checkpoints) { s.checkpoints = c }

// WithCheckpoint has a runner of [Session.Exec] or [Session.ExecFile] leave a checkpoint, if its
// job keeps the variables. The job's receipt says whether there is one.
func (s *Session) WithCheckpoint(run jobs.Runner) jobs.Runner {
	run.(*exec).checkpoint = true
	return run
}

// keepCheckpoint makes a checkpoint after the job that has the turn t, and says whether it was
// kept, or why not. A cancelled job gets one too, but a cancel that arrives during the fork ends
// the fork.
func (s *Session) keepCheckpoint(ctx context.Context, rec jobs.Receipt, t *ticket) string {
	if rec.State != jobs.Kept {
		return "not kept: the job has not kept the variables"
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	b, _, err := s.fork(ctx, t, s.name, s.cfg)
	if err != nil {
		return "not kept: " + err.Error()
	}
	dropped := s.checkpoints.Add(checkpoint.Point[dormant]{Owner: s, Session: s.name, Job: t.job(), Made: time.Now(), State: dormant{b}})
	s.dropIfClosed()
	return strings.Join(nonEmpty("kept", s.checkpoints.Holds(), dropped.String()), "; ")
}

// Restorable returns the job of the session's newest checkpoint if the variables were lost in a job
// and no worker was started since. Otherwise it returns "".
func (s *Session) Restorable(job string) (checkpoint string) {
	s.mu.Lock()
	lost := s.w == nil && s.lostIn == job && !s.closed
	s.mu.Unlock()
	if !lost {
		return ""
	}
	return s.checkpoints.Newest(s)
}

// dropIfClosed ends the checkpoints of a session that has been closed.
func (s *Session) dropIfClosed() {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.checkpoints.Drop(s)
	}
}

// RestartFrom is [Session.Restart] with a worker that continues from the checkpoint after a job, or
// from the newest one if job is "latest". It returns the job of the checkpoint. After an error
// nothing has ended.
func (s *Session) RestartFrom(ctx context.Context, by jobs.By, reason, job string) (of string, wait func(ctx context.Context) (End, error), err error) {
	c, err := s.continued(ctx, job, s.name, s.cfg)
	if err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		defer c.session.Close()
		return "", nil, errClosed
	}
	stop := jobs.Stop{By: by, From: jobs.Terminate, Step: resetStep, Reason: reason}
	re := s.reset(stop, "a restart", c.session)
	re.end.Checkpoints = c.newer.String()
	return c.job, re.wait, nil
}

// A continuation is a branch of the checkpoint after a job. newer is the latest checkpoint, if that
// was asked for and is gone.
type continuation struct {
	session *Session
	shared  Shared
	job     string
	newer   *checkpoint.Gone
}

// continued continues from the checkpoint after a job, or from the latest one that lives. If no
// such checkpoint lives, the error is a [*checkpoint.MissingError].
func (s *Session) continued(ctx context.Context, job, name string, cfg Config) (c continuation, err error) {
	for {
		p, newer, err := s.checkpoints.Find(s, s.name, job)
		if err != nil {
			return c, err
		}
		c.job, c.newer = p.Job, newer
		c.session, c.shared, err = p.State.branch(ctx, "the checkpoint of job "+p.Job, name, cfg, "")
		if err == nil || p.State.Ended() == "" { // else it has ended meanwhile
			return c, err
		}
	}
}

// continueAs gives the session the worker of next, and all that is known about it. It ends the
// worker if the session has been closed.
func (s *Session) continueAs(next *Session) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.w, s.names, s.hidden, s.asOf, s.history, next.w = next.w, next.names, next.hidden, next.asOf, next.history, nil
	}
	s.mu.Unlock()
	if closed {
		next.Close()
	}
}
