//go:build unix

package engine

import (
	"fmt"
	"time"

	"asyncrepl/jobs"
)

// A Replay runs code in the state after a job of a session by running that job, and those before
// it, again in a new one.
type Replay interface {
	// Cost returns how many jobs run again, and how long they took the first time.
	Cost() (count int, took time.Duration)
	// Same returns the id of a job of the tenant that did the same work in that state, or "".
	Same(work Work) string
	// Run makes a session with the settings of the job's, and returns its name and the runner of work
	// in that state. With an empty name it takes a free one. The error is one of [Engine.Create],
	// or a [*NoSessionError] about the job's.
	Run(name string, work Work) (string, jobs.Runner, error)
}

type replay struct {
	e       *Engine
	sc      Scope
	session string  // of the job
	steps   []Entry // that run again
}

// Replay returns the replay of a job of the scope's tenant. The error can be a [*NoSessionError]
// about the job's session, or say why the job can't be run again.
func (e *Engine) Replay(sc Scope, job jobs.Info) (Replay, error) {
	s, err := e.Session(sc, job.Session)
	if err != nil {
		return nil, err
	}
	steps, err := s.History().Until(job.ID)
	if err != nil {
		return nil, err
	}
	return &replay{e, sc, job.Session, steps}, nil
}

func (r *replay) Cost() (count int, took time.Duration) {
	for _, step := range r.steps {
		took += step.Ended.Sub(step.Began)
	}
	return len(r.steps), took
}

func (r *replay) Same(work Work) string {
	for _, s := range r.e.sessionsOf(r.sc) {
		if job := s.History().Same(r.steps[len(r.steps)-1], work); job != "" {
			return job
		}
	}
	return ""
}

func (r *replay) Run(name string, work Work) (string, jobs.Runner, error) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	of := r.e.sessions[sessionKey{r.sc.Tenant, r.session}]
	if of == nil {
		return "", nil, r.e.noSession(r.sc, r.session)
	}
	name = r.e.freeName(r.sc, r.session, name)
	if err := r.e.canMake(r.sc, name); err != nil {
		return "", nil, err
	}
	spec := of.spec
	spec.Name = name
	s := r.e.make(r.sc, spec, of.packages)
	s.named, s.awaits, s.parent = of.named, 1, r.session
	return name, s.Session.Replay(r.steps, work), nil
}

// freeName returns name or, if it is empty, the name of a session that there is not, after that of
// another one. The caller holds mu.
func (e *Engine) freeName(sc Scope, after, name string) string {
	for n := 2; name == ""; n++ {
		free := fmt.Sprintf("%.60s-%d", after, n)
		if e.sessions[sessionKey{sc.Tenant, free}] == nil {
			name = free
		}
	}
	return name
}
