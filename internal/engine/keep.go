//go:build unix

package engine

import (
	"context"
	"maps"
	"time"

	"asyncrepl/jobs"
	"asyncrepl/shell"
)

// A client can have jobs continue after its goodbye (jobs.Spec.Keep), and with a Python job its
// session, which has the variables that the job is about. A kept job is kept until it ends. A kept
// session is kept as long as it has variables, but no longer than keptRest without a job.

// keptRest is how long a kept session can be idle.
const keptRest = 24 * time.Hour

// Keep keeps a Python session after a goodbye. It does nothing if there is none of that name.
func (e *Engine) Keep(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.sessions[name]; s != nil {
		s.kept = true
	}
}

// keeps reports whether a session is kept.
func (e *Engine) keeps(s session) bool {
	st := s.State()
	return s.kept && (!st.Idle() || st.Variables > 0 && time.Since(s.idleSince(st)) < e.keptRest)
}

// Kept returns the number of jobs that are kept, and of kept sessions that no such job uses.
func (e *Engine) Kept() (jobsKept, sessions int) {
	list := e.unended()
	busy := make(map[string]bool)
	for _, record := range list {
		if record.Keep {
			busy[record.Session] = record.Kind == jobs.Python
			jobsKept++
		}
	}
	for _, s := range e.list() {
		if !busy[s.Name()] && e.keeps(s) {
			sessions++
		}
	}
	return jobsKept, sessions
}

// unended returns the jobs that have not ended.
func (e *Engine) unended() []jobs.Record {
	return e.jobs.List(jobs.Filter{Status: []jobs.Status{jobs.Queued, jobs.Running, jobs.WaitingInput}})
}

// unkeptStep is the time between two rungs for what a goodbye ends, if the engine continues.
const unkeptStep = 2 * time.Second

// EndUnkept ends what is not kept: jobs, sessions, shell sessions and processes that jobs have left
// behind, here and at other places. It does not wait for their ends.
func (e *Engine) EndUnkept(cause jobs.By) {
	sessions := e.list()
	kept := make(map[string]bool)
	for _, s := range sessions {
		kept[s.Name()] = e.keeps(s)
	}
	// The jobs are stopped before their sessions end: a queued one would fail for the lost variables.
	for _, record := range e.unended() {
		j := e.jobs.Lookup(record.ID)
		if record.Keep || j == nil {
			continue
		}
		st := jobs.Stop{By: cause, From: jobs.Terminate, Step: unkeptStep}
		if record.Kind == jobs.Python && kept[record.Session] {
			st.From, st.Spare = jobs.Interrupt, true // the variables are kept
		}
		j.Stop(st)
	}
	if e.away != nil {
		e.away.EndUnkept(cause)
	}
	for _, s := range sessions {
		if !kept[s.Name()] {
			e.Delete(s.Name(), cause, "") // an error: it is gone already
		}
	}
	e.mu.Lock()
	maps.DeleteFunc(e.shells, func(_ string, s *shell.Session) bool {
		idle, _ := s.Idle()
		return !idle.IsZero()
	})
	e.mu.Unlock()
	go e.endRemains(cause) // ends when no process is left, or after remainsTime
}

// remainsTime bounds the end of the processes that jobs have left behind.
const remainsTime = 10 * time.Second

// endRemains ends the processes that ended jobs have left behind, except kept ones.
func (e *Engine) endRemains(cause jobs.By) {
	ctx, cancel := context.WithTimeout(context.Background(), remainsTime)
	defer cancel()
	for _, record := range e.jobs.List(jobs.Filter{Status: []jobs.Status{jobs.Completed, jobs.Failed, jobs.Cancelled}}) {
		if j := e.jobs.Lookup(record.ID); j != nil && !record.Keep {
			j.Cleanup(ctx, jobs.Stop{By: cause, From: jobs.Terminate, Step: unkeptStep})
		}
	}
}
