//go:build unix

package engine

import (
	"context"
	"fmt"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/pyrepl"
)

// A Replay runs code in the state after a job of a session by running that job, and those before
// it, again in a new one.
type Replay interface {
	// Cost returns how many jobs run again, and how long they took the first time.
	Cost() (count int, took time.Duration)
	// Run makes a session with the settings and environment of the job's, and returns its name and the runner of work
	// in that state. With an empty name it takes a free one. The session is deleted if its job ends
	// before the work begins. The error is one of [Engine.Create], or a [*NoSessionError] about the
	// job's.
	Run(name string, work Work) (string, jobs.Runner, error)
}

type replay struct {
	e       *Engine
	session string  // that has the code
	steps   []Entry // that run again
}

// Replay returns the replay of a job, by the code that its session or a branch of that has kept. The
// error can be a [*NoSessionError] about the job's session, or say why the job can't be run again.
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

// same returns the id of a job that did the same work in the state to make, or "".
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

// abandon deletes a session whose only job has ended before it made the state that it is for. If
// ctx is done, abandon does not wait for the end of its Python.
func (e *Engine) abandon(ctx context.Context, s *session) {
	e.mu.Lock()
	if name := s.Name(); e.sessions[name] == s {
		delete(e.sessions, name)
	}
	e.mu.Unlock()
	if wait, err := s.Python.Delete(jobs.Program, "a rerun that was cut short"); err == nil {
		wait(ctx) // an error: its owner ends the rest of it with the server
	}
}

// freeName returns name or, if it is empty, the name of a session that there is not, after that of
// another one. The caller holds mu.
func (e *Engine) freeName(after, name string) string {
	for n := 2; name == ""; n++ {
		free := fmt.Sprintf("%.60s-%d", after, n)
		if e.sessions[free] == nil {
			name = free
		}
	}
	return name
}
