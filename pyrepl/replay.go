package pyrepl

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// A replay restores a state by running the code again that led to it. Effects outside the session
// happen again. Tracebacks of a job that runs again name the id that it had the first time. What it
// prints is output of the new job, and pictures are not shown again.

// Until returns the jobs that led to the state after job: job itself and all jobs since the last
// loss of the variables. The error says why running them again can't restore the state.
func (h History) Until(job string) ([]Entry, error) {
	begin, complete := 0, h.Dropped == 0
	for i, e := range h.Entries {
		switch {
		case e.Lost != "":
			begin, complete = i+1, true
		case e.Job != job:
		case e.Ended.IsZero():
			return nil, fmt.Errorf("job %s still runs", job)
		case !complete:
			return nil, fmt.Errorf("the session no longer keeps the code of %s before job %s, which its state depends on", view.CountOf(h.Dropped, "job"), job)
		default:
			steps := h.Entries[begin : i+1]
			for _, step := range steps {
				if !step.repeatable() {
					return nil, fmt.Errorf("job %s %s: what it had done by then can't be repeated", step.Job, step.Receipt.Text())
				}
			}
			return steps, nil
		}
	}
	return nil, fmt.Errorf("the session has no code of job %s: it ran none, or its code is no longer kept", job)
}

// Same returns the id of a job of h that did the same work in the same state, as far as the code
// that has run shows, or "". The state is the one after a job of another session. Same finds no job
// for work that runs a file, because the state depends on the file's hash, which the run reports.
func (h History) Same(after Entry, work Work) string {
	e := Entry{Work: work}
	want := e.after(after.state)
	for _, e := range h.Entries {
		if e.Lost == "" && e.state == want {
			return e.Job
		}
	}
	return ""
}

// repeatable reports whether the code ended without being stopped. Code that an interrupt ended
// would run on when it runs again without the interrupt.
func (e *Entry) repeatable() bool {
	switch rec := e.Receipt; rec.End {
	case jobs.Returned, jobs.Raised, jobs.Exited:
		return rec.Stop == nil && len(rec.Rungs) == 0 && rec.State == jobs.Kept
	}
	return false
}

// A Replay is work in the state after earlier jobs, which run again first.
type Replay struct {
	Earlier []Entry
	Work    Work
	Note    string                    // added to the receipt if Work has run
	Abandon func(ctx context.Context) // ends the session if Work never begins; nil: it stays
}

// Replay returns the runner of r in a session made for it. It ends at the first earlier job that
// fails and did not fail so before, that asks for input, or whose file has changed.
func (s *Session) Replay(r Replay) jobs.Runner {
	return &exec{s: s, work: r.Work, replay: &r}
}

// abandon ends the session of a replay that has ended before its own work has begun.
func (e *exec) abandon(ctx context.Context, rec *jobs.Receipt) {
	if e.replay != nil && !e.begun && e.replay.Abandon != nil {
		e.replay.Abandon(ctx)
		if rec.Names = (jobs.NameChange{}); rec.State == jobs.Kept {
			rec.State = "" // there are no variables any more
		}
		rec.Notes = append(rec.Notes, "session "+e.s.name+", made for this job, is deleted again")
	}
}

// repeat runs the earlier jobs again and returns an outcome whose notes say so. If one of them
// fails and did not fail so before, repeat returns the outcome of the job, and false.
func (e *exec) repeat(ctx context.Context, p *jobs.Port, w *worker.Worker) (jobs.Outcome, bool) {
	began := time.Now()
	if e.replay == nil {
		return jobs.Outcome{}, true
	}
	for i, step := range e.replay.Earlier {
		out := e.again(ctx, p, w, step)
		rec := &out.Receipt
		if rec.Status() == jobs.Completed || rec.Text() == step.Receipt.Text() {
			continue
		}
		out.Result, out.HasResult = "", false
		note := "the new code was not run"
		if left := len(e.replay.Earlier) - i - 1; left > 0 {
			note = view.CountOf(left, "job") + " after it and the new code were not run"
		}
		if !strings.Contains(rec.Detail, step.Job) {
			note = "job " + step.Job + " ended so when it was run again; " + note
		}
		rec.Notes = append(rec.Notes, note)
		return out, false
	}
	count, took := view.CountOf(len(e.replay.Earlier), "job"), time.Since(began).Round(time.Millisecond)
	notes := []string{fmt.Sprintf("run again first: %s in %v", count, took)}
	if e.replay.Note != "" {
		notes = append(notes, e.replay.Note)
	}
	return jobs.Outcome{Receipt: jobs.Receipt{Notes: notes}}, true
}

// again runs an earlier job again.
func (e *exec) again(ctx context.Context, p *jobs.Port, w *worker.Worker, step Entry) jobs.Outcome {
	if file := step.changedFile(); file != "" {
		if name, err := filepath.Rel(e.s.cfg.Dir, file); err == nil && filepath.IsLocal(name) {
			file = name
		}
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Raised, By: jobs.Program, State: jobs.Kept,
			Detail: "job " + step.Job + " can't run again: " + file + " has changed"}}
	}
	r := e.newRun(w, p)
	r.id, r.mute = step.Job, true
	out := r.exec(ctx, step.Work)
	e.s.record(func(h *history) { h.end(p.Complete(out.Receipt)) })
	if r.asked {
		out.Receipt = jobs.Receipt{End: jobs.Raised, By: jobs.Program, State: out.Receipt.State,
			Detail: "job " + step.Job + ", run again, asked for input"}
	}
	return out
}

// changedFile returns the path of a file that the job ran and that has changed since, or "".
func (e *Entry) changedFile() string {
	for _, path := range slices.Sorted(maps.Keys(e.files)) {
		if worker.FileHash(path) != e.files[path] {
			return path
		}
	}
	return ""
}

// refuse ends a job, because it asks for input.
func (r *run) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asked {
		r.asked = true
		r.p.Cancel(jobs.Stop{By: jobs.Program, From: jobs.Interrupt, Spare: true})
	}
}
