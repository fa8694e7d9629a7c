//go:build unix

package engine

import (
	"sync"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process"
	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// A Confinement is what an engine knows of the sandbox that it runs in.
type Confinement struct {
	// Summary says in 120 characters at most what jobs can reach: "workspace; writes /srv/app, /tmp; home
	// hidden; network none".
	Summary string
	Removed []string       // the names of the variables that were left out of the environment
	Seals   []sandbox.Seal // what must be mounted where
}

// Sandbox returns the summary of the sandbox, or "" if there is none.
func (e *Engine) Sandbox() string {
	if e.config.Sandbox == nil {
		return ""
	}
	return e.config.Sandbox.Summary
}

// A sealCheck holds the result of the last check of a sandbox's seals.
type sealCheck struct {
	mu          sync.Mutex
	due         time.Time
	unprotected []string
}

// checkShare bounds the time that checks take: a check that took d is repeated after 50 d. Of two dozen
// seals that is three milliseconds, so the next reply of an agent has a new one, while a slow disk, or calls
// without a pause, cost a fiftieth.
const checkShare = 50

// Unprotected says of each file that the sandbox protects no more what jobs can do to it now, in a line.
func (e *Engine) Unprotected() []string {
	if e.config.Sandbox == nil {
		return nil
	}
	c := &e.seals
	c.mu.Lock()
	defer c.mu.Unlock()
	if begin := time.Now(); !begin.Before(c.due) {
		c.unprotected = unprotected(e.config.Sandbox.Seals)
		end := time.Now()
		c.due = end.Add(checkShare * end.Sub(begin))
	}
	return c.unprotected
}

// targetMax bounds the target of a connection that was refused, in characters. Jobs choose it.
const targetMax = 100

// Deny notes that the proxy of the sandbox refuses a connection of a process to target, such as "CONNECT
// evil.example:443". Its job says so or, if it has none that runs, the status of the engine. The pid is 0 if
// it is unknown. Call Deny before the process gets its answer: its job can end with that.
func (e *Engine) Deny(pid int, target string) {
	target = view.Line(target, targetMax)
	var p jobs.Process
	var h *process.Handle
	if s, err := procfs.Inspect(pid); err == nil {
		p = jobs.Process{PID: pid, Program: s.Program}
		h = e.owner.HandleOf(pid)
	}
	if j := e.jobOf(h); j != nil && j.Deny(target, p) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.denied.Add(target, p) { // the log is bounded, too
		e.config.Log.Info("the sandbox refused a connection of no running job", "target", target, "program", p.Program, "pid", p.PID)
	}
}

// jobOf returns the job that runs in a tree, or nil.
func (e *Engine) jobOf(h *process.Handle) *jobs.Job {
	if h == nil {
		return nil
	}
	// The tree of a command has the mark of its job, even if the job has not named its process yet.
	if j := e.jobs.Lookup(h.Mark()); j != nil {
		return j
	}
	for _, s := range e.all() {
		if st := s.State(); st.PID == h.PID() {
			return e.jobs.Lookup(st.Job)
		}
	}
	return nil
}
