package server

import (
	"context"
	"fmt"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/jobs"
)

// A testSession is a session of a world: its code is programs.
type testSession struct {
	w    *world
	name string
}

func (s *testSession) Exec(code string) jobs.Runner {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.order = append(s.w.order, code)
	return &program{s.w, code}
}

func (s *testSession) ExecFile(f engine.File) jobs.Runner {
	return s.Exec(fmt.Sprintf("out %q", "ran "+f.String()+"\n"))
}

// Ask runs the code of a request: a program. Its job withdraws if its turn has not come.
func (s *testSession) Ask(q engine.Request, code string, _ time.Duration) jobs.Runner {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.asked = append(s.w.asked, q)
	return &program{s.w, code}
}

func (s *testSession) Variables(ctx context.Context, pattern string) (engine.Variables, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.vars[s.name], nil
}

func (s *testSession) History() engine.History {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.histories[s.name]
}

// Restart asks the jobs to end. wait returns at once, perhaps before they have ended: the session
// itself has no process.
func (s *testSession) Restart(by jobs.By, reason string) (wait func(context.Context) (engine.End, error), err error) {
	list := s.w.jobs.List(jobs.Filter{Session: s.name})
	for _, record := range list {
		j, err := s.w.jobs.Get(record.ID)
		if err != nil {
			return nil, err
		}
		j.Stop(jobs.Stop{By: by, From: jobs.Kill, Reason: reason})
	}
	return func(context.Context) (engine.End, error) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.w.restarted != nil {
			close(s.w.restarted)
			s.w.restarted = nil
		}
		return engine.End{Had: len(list) > 0}, nil
	}, nil
}

// Restorable knows the checkpoint of one job.
func (s *testSession) Restorable(string) string { return "J1" }

// WithCheckpoint returns a runner that says so.
func (s *testSession) WithCheckpoint(run jobs.Runner) jobs.Runner {
	return keeping{run}
}

// A keeping is a runner with a checkpoint in its receipt.
type keeping struct{ jobs.Runner }

func (k keeping) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	out := k.Runner.Run(ctx, p)
	out.Receipt.Checkpoint = "kept"
	return out
}

// RestartFrom knows the checkpoint of one job.
func (s *testSession) RestartFrom(_ context.Context, by jobs.By, reason, checkpoint string) (job string, wait func(context.Context) (engine.End, error), err error) {
	if checkpoint != "latest" {
		return "", nil, fmt.Errorf("session %s has no checkpoint of job %s; there are those of J1", s.name, checkpoint)
	}
	wait, err = s.Restart(by, reason)
	return "J1", wait, err
}
