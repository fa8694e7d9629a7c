//go:build unix

package engine

import (
	"fmt"
	"sync"
	"time"

	"asyncrepl/internal/process"
	"asyncrepl/jobs"
)

// readyPause is how long an answer of Ready is reused. Clients without a token can ask, and a new
// answer costs a process, so they could keep the machine busy. readyLimit bounds the time of that
// process.
const (
	readyPause = time.Second
	readyLimit = 5 * time.Second
)

// readiness is the last answer of [Tenants.Ready].
type readiness struct {
	mu  sync.Mutex // held during a try, so that concurrent callers share its answer
	at  time.Time
	err error
}

// Ready returns why no tenant can start a job now, or nil. It starts a process to find out, once a
// second at most.
func (t *Tenants) Ready() error {
	r := &t.ready
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || time.Since(r.at) > readyPause {
		r.err = t.tryStart()
		r.at = time.Now()
	}
	return r.err
}

// tryStart returns the answer of Ready, which remembers it.
func (t *Tenants) tryStart() (err error) {
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return errShutdown
	}
	for _, e := range t.all() {
		if err = e.jobs.Room(); err == nil {
			return e.tryProcess()
		}
	}
	return err
}

// tryProcess runs a shell that does nothing.
func (e *Engine) tryProcess() error {
	h, err := e.owner.Start(process.Spec{Argv: []string{e.config.Shell, "-c", ":"}, Env: e.config.GuardEnv, Dir: e.config.Workspace})
	if err != nil {
		return fmt.Errorf("starting a process: %w", err)
	}
	select {
	case <-h.Done():
	case <-time.After(readyLimit):
		h.Stop(process.Ladder{From: jobs.Kill})
		return fmt.Errorf("%s has not ended after %v", e.config.Shell, readyLimit)
	}
	if exit := h.Exit(); exit.Code != 0 {
		return fmt.Errorf("running %s: exit %d, signal %d", e.config.Shell, exit.Code, exit.Signal)
	}
	return nil
}
