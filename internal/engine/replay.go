//go:build unix

package engine

import (
	"context"
	"fmt"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// A Replay runs code in the state after a job of a session: it runs that job and the jobs before it
// again in a new session.
type Replay interface {
	// Cost returns how many jobs run again, and how long they took the first time.
	Cost() (count int, took time.Duration)
	// Run makes a session with the settings and environment of the job's session. It returns the
	// name of the new session and the runner of work in that state. If name is empty, Run chooses a
	// free name. The session is deleted if its job ends before the work begins. The error can be
	// any error of [Engine.Create], or a [*NoSessionError] about the job's session.
	Run(name string, work Work) (string, jobs.Runner, error)
}

type replay struct {
	e       *Engine
	session string  // the session that has kept the code
	steps   []Entry // the code to run again, the oldest first
}

// Replay returns the replay of a job. It takes the code that the job's session, or a branch of that
// session, has kept. The error can be a [*NoSessionError] about the job's session, or say why the
// job can't be run again.
func (e *Engine) Replay(job jobs.Record) (Replay, error) {
	s, err := e.Session(job.Session)
	if err == nil {
		var steps []Entry
		if steps, err = s.History().Until(job.ID); err == nil {
			return &replay{e, job.Session, steps}, nil
		}
	}
	for _, s := range e.list() {
		if steps, err := s.History().Until(job.ID); err == nil {
			return &replay{e, s.Name(), steps}, nil
		}
	}
	return nil, err
}

func (r *replay) Cost() (count int, took time.Duration) {
	for _, step := range r.steps {
		took += step.Ended.Sub(step.Began)
	}
	return len(r.steps), took
}

// same returns the ID of a job that did the same work in the state that r makes, or "".
func (r *replay) same(work Work) string {
	for _, s := range r.e.list() {
		if job := s.History().Same(r.steps[len(r.steps)-1], work); job != "" {
			return job
		}
	}
	return ""
}

func (r *replay) Run(name string, work Work) (_ string, _ jobs.Runner, err error) {
	defer func() { err = r.e.described(err) }()
	again := pyrepl.Replay{Earlier: r.steps, Work: work}
	if job := r.same(work); job != "" {
		again.Note = "Same code as job " + job + ", which ran it in the same state"
	}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	of := r.e.sessions[r.session]
	if of == nil {
		return "", nil, r.e.noSession(r.session)
	}
	name = r.e.freeName(r.session, name)
	if err := r.e.canMake(name); err != nil {
		return "", nil, err
	}
	spec := of.spec
	spec.Name = name
	s := r.e.make(of.scope, spec, of.packages)
	s.named, s.awaits, s.rerun = of.named, 1, r.steps[len(r.steps)-1].Job
	again.Abandon = func(ctx context.Context) { r.e.abandon(ctx, s) }
	return name, s.Python.Replay(again), nil
}

// abandon deletes a session if its only job has ended before it had made the state. Once ctx is
// done, abandon does not wait for the session's Python to end.
func (e *Engine) abandon(ctx context.Context, s *session) {
	e.mu.Lock()
	if name := s.Name(); e.sessions[name] == s {
		delete(e.sessions, name)
	}
	e.mu.Unlock()
	if wait, err := s.Python.Delete(jobs.Program, "a rerun that was cut short"); err == nil {
		wait(ctx) // after an error, the owner ends the remaining processes with the server
	}
}

// freeName returns name. If name is empty, freeName appends a number to after, so that the result
// is the name of no session. The caller holds mu.
func (e *Engine) freeName(after, name string) string {
	for n := 2; name == ""; n++ {
		free := fmt.Sprintf("%.60s-%d", after, n)
		if e.sessions[free] == nil {
			name = free
		}
	}
	return name
}
