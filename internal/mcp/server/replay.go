package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// executeFrom runs code in the state after an earlier job, in a new session.
func (c *call) executeFrom(ctx context.Context) (*report.Reply, error) {
	j, err := c.find(ctx, c.args.FromJob)
	if err != nil {
		return nil, err
	}
	record := j.Record()
	if record.Kind != jobs.Python {
		return nil, report.Mistakef("from_job: job %s is no Python job, and leaves no state to continue from.", record.ID)
	}
	if j.Past() {
		return nil, report.Mistakef("from_job: job %s ran in an earlier server, and its session %s ended with that. Run the code again with execute_python.", record.ID, record.Session)
	}
	if record.Status == jobs.Queued {
		return nil, report.Mistakef("from_job: job %s has not begun: wait for its end with check_job_status, then call again.", record.ID)
	}
	reply, refused := c.continueFrom(ctx, record)
	if refused == nil || !c.args.Rerun && !c.rerunHelps(refused) {
		return reply, refused
	}
	replay, err := c.Backend.Replay(record)
	if no, ok := errors.AsType[*engine.NoSessionError](err); ok {
		how := "is deleted"
		if no.Loss != nil {
			how = no.Loss.How
		}
		return nil, report.Mistakef("The state after job %s is gone: session %s, in which it ran, %s. "+
			"Run the code again with execute_python.", record.ID, no.Name, how)
	}
	if err != nil && !errors.Is(refused, engine.ErrNotKept) {
		return nil, refused
	}
	if err != nil {
		return nil, fmt.Errorf("the state after job %s can't be made again: %w", record.ID, err)
	}
	if !c.args.Rerun {
		return nil, c.offerRerun(record, refused, replay)
	}
	work := engine.Work{Code: c.args.Code, Path: c.args.Path, Args: c.args.Args}
	name, run, err := replay.Run(c.args.Session, work)
	if err != nil {
		return nil, err
	}
	if py, err := c.Backend.Session(name); err == nil {
		run = c.keeping(py, run)
	}
	return c.executeIn(ctx, name, run)
}

// rerunHelps reports whether running code again can make a state that can't be continued because
// of err.
func (c *call) rerunHelps(err error) bool {
	_, exists := errors.AsType[*engine.SessionExistsError](err)
	_, many := errors.AsType[*engine.TooManySessionsError](err)
	return !exists && !many
}

// offerRerun returns the refusal of a call without rerun=true: why the state after a job can't be
// continued, and what rerun=true does.
func (c *call) offerRerun(job jobs.Record, refused error, replay engine.Replay) error {
	count, took := replay.Cost()
	cost := fmt.Sprintf("(%s, %v in all); what that does outside Python then happens again",
		view.CountOf(count, "job"), took.Round(time.Millisecond))
	if errors.Is(refused, engine.ErrNotKept) {
		why := strings.TrimPrefix(refused.Error(), engine.ErrNotKept.Error())
		return report.Mistakef("The state after job %s is not kept%s. To make it again, what session %s ran up to then must run again %s. "+
			"Call with rerun=true if that is right.", job.ID, why, job.Session, cost)
	}
	text := strings.TrimRight(c.refusal(refused).String(), ".\n")
	return report.Mistakef("%s. Or call with rerun=true, which runs again what session %s ran up to job %s %s.",
		text, job.Session, job.ID, cost)
}

// continueFrom runs the code in the state after an earlier job if that is kept, and nothing again.
// The error is engine.ErrNotKept if it is not.
func (c *call) continueFrom(ctx context.Context, job jobs.Record) (*report.Reply, error) {
	limited, cancel := context.WithTimeout(ctx, c.scope.GraceTime())
	defer cancel()
	status, shared, err := c.Backend.Continue(limited, job, c.args.Session)
	if err != nil {
		return nil, err
	}
	py, _, err := c.Backend.Open(c.scope, status.Name)
	if err != nil {
		return nil, err
	}
	run := py.Exec(c.args.Code)
	if c.args.Path != "" {
		run = py.ExecFile(engine.File{Path: c.args.Path, Args: c.args.Args})
	}
	reply, err := c.executeIn(ctx, status.Name, c.keeping(py, run))
	if err == nil && len(shared) > 0 {
		reply.Insert("Note", "shared with session "+status.Parent+": "+nameList(shared))
	}
	return reply, err
}

// executeIn runs the code of the call in a session that was made for it. The session is deleted if
// there can be no job.
func (c *call) executeIn(ctx context.Context, session string, run jobs.Runner) (*report.Reply, error) {
	reply, err := c.execute(ctx, c.pythonSpec(session), run)
	if err != nil {
		c.Backend.Delete(session, c.By, "execute_python") // an error: it is gone already
		return nil, err
	}
	_, gone := c.Backend.Session(session)
	c.made, c.chosen = gone == nil, session
	return reply, nil
}
