package pyrepl

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/procfs"
	"asyncrepl/jobs"
)

// A checkpoint is a branch of a session that does nothing: it keeps the variables as a job left
// them, for a restart that continues with a branch of it. Most of its memory is shared with the
// session until either changes it.

// checkpointsMax is the most checkpoints of one tenant.
const checkpointsMax = 5

// LatestCheckpoint stands for the newest checkpoint of a session.
const LatestCheckpoint = "latest"

// Checkpoints keeps the newest checkpoints of the sessions of one tenant.
type Checkpoints struct {
	mu   sync.Mutex
	list []*checkpoint // the oldest first
}

type checkpoint struct {
	of     *Session
	job    string // after which it was made
	made   time.Time
	branch *Session
}

// A CheckpointState describes one checkpoint.
type CheckpointState struct {
	Session, Job string
	Made         time.Time
	Memory       int64 // bytes that it shares with no other process; 0: unknown
}

// List returns the checkpoints, the oldest first.
func (c *Checkpoints) List() (list []CheckpointState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.list {
		list = append(list, CheckpointState{p.of.name, p.job, p.made, p.branch.privateMemory()})
	}
	return list
}

// add keeps a checkpoint, and drops the oldest one if there are too many.
func (c *Checkpoints) add(p *checkpoint) {
	c.mu.Lock()
	c.list = append(c.list, p)
	var old *checkpoint
	if len(c.list) > checkpointsMax {
		old, c.list = c.list[0], c.list[1:]
	}
	c.mu.Unlock()
	if old != nil {
		old.branch.Close()
	}
}

// drop ends all checkpoints of a session.
func (c *Checkpoints) drop(of *Session) {
	c.mu.Lock()
	var rest, dropped []*checkpoint
	for _, p := range c.list {
		if p.of == of {
			dropped = append(dropped, p)
		} else {
			rest = append(rest, p)
		}
	}
	c.list = rest
	c.mu.Unlock()
	for _, p := range dropped {
		p.branch.Close()
	}
}

// find returns the checkpoint of a session after a job, or its newest one.
func (c *Checkpoints) find(of *Session, job string) (*checkpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var there []string
	var found *checkpoint
	for _, p := range c.list {
		if p.of == of {
			there = append(there, p.job)
			if job == p.job || job == LatestCheckpoint {
				found = p
			}
		}
	}
	switch {
	case found != nil:
		return found, nil
	case len(there) == 0:
		return nil, fmt.Errorf("session %s has no checkpoint: run a job with checkpoint=true first", of.name)
	}
	return nil, fmt.Errorf("session %s has no checkpoint of job %s; there are those of %s", of.name, job, strings.Join(there, ", "))
}

// privateMemory returns how much memory the worker shares with no other process, or 0 if that is
// not known.
func (s *Session) privateMemory() int64 {
	s.mu.Lock()
	w := s.w
	s.mu.Unlock()
	if w == nil || w.Ended() {
		return 0
	}
	n, _ := procfs.PrivateMemory(w.Process().PID()) // an error: it has ended, or the system does not say
	return n
}

// SetCheckpoints has the session keep its checkpoints in c, with those of other sessions. It must
// be called before the first job.
func (s *Session) SetCheckpoints(c *Checkpoints) { s.checkpoints = c }

// WithCheckpoint has a runner of [Session.Exec] or [Session.ExecFile] leave a checkpoint, if its
// job keeps the variables. The job's receipt says whether there is one.
func (s *Session) WithCheckpoint(run jobs.Runner) jobs.Runner {
	run.(*exec).checkpoint = true
	return run
}

// keepCheckpoint makes a checkpoint after the job that has the turn t, and says what has become of
// it. A job that was cancelled has one too; a cancel that comes meanwhile gives it up.
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
	s.checkpoints.add(&checkpoint{of: s, job: t.job(), made: time.Now(), branch: b})
	s.dropIfClosed()
	return "kept"
}

// dropIfClosed ends the checkpoints of a session that has been closed.
func (s *Session) dropIfClosed() {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		s.checkpoints.drop(s)
	}
}

// RestartFrom is [Session.Restart] with a worker that continues from the checkpoint after a job, or
// from the newest one. It returns that job. After an error nothing has ended.
func (s *Session) RestartFrom(ctx context.Context, by jobs.By, reason, checkpoint string) (job string, wait func(ctx context.Context) (End, error), err error) {
	p, err := s.checkpoints.find(s, checkpoint)
	if err != nil {
		return "", nil, err
	}
	next, _, err := p.branch.Branch(ctx, s.name, s.cfg)
	if err != nil {
		return "", nil, fmt.Errorf("the checkpoint of job %s can't be used: %w", p.job, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		defer next.Close()
		return "", nil, errClosed
	}
	stop := jobs.Stop{By: by, From: jobs.Terminate, Step: resetStep, Reason: reason}
	return p.job, s.reset(stop, "a restart", next).wait, nil
}

// continueAs gives the session the worker of next, and all that is known about it. It ends the
// worker if the session has been closed.
func (s *Session) continueAs(next *Session) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.w, s.names, s.asOf, s.history, next.w = next.w, next.names, next.asOf, next.history, nil
	}
	s.mu.Unlock()
	if closed {
		next.Close()
	}
}
