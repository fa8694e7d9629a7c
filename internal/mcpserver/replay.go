package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"asyncrepl/internal/arguments"
	"asyncrepl/internal/engine"
	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// executeFrom runs code in the state after an earlier job, in a new session.
func (c *call) executeFrom(ctx context.Context) (*report.Reply, error) {
	j, err := c.find(c.args.FromJob)
	if err != nil {
		return nil, err
	}
	info := j.Info()
	if info.Kind != jobs.Python {
		return nil, arguments.Mistakef("from_job: job %s is no Python job, and leaves no state to continue from.", info.ID)
	}
	if reply, err := c.continueFrom(ctx, info); !errors.Is(err, engine.ErrNotKept) {
		if err == nil || !c.args.Rerun {
			return reply, err
		}
	}
	replay, err := c.Backend.Replay(c.scope, info)
	if _, ok := errors.AsType[*engine.NoSessionError](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the state after job %s can't be made again: %w", info.ID, err)
	}
	count, took := replay.Cost()
	if !c.args.Rerun {
		return nil, arguments.Mistakef("The state after job %s is not kept. To make it again, what session %s ran up to then must run again (jobs: %s, %v in all); "+
			"what that does outside Python then happens again. Call with rerun=true if that is right.",
			info.ID, info.Session, view.Count(count), took.Round(time.Millisecond))
	}
	work := engine.Work{Code: c.args.Code, Path: c.args.Path, Args: c.args.Args}
	name, run, err := replay.Run(c.args.Session, work)
	if err != nil {
		return nil, err
	}
	if py, err := c.Backend.Session(c.scope, name); err == nil {
		run = c.keeping(py, run)
	}
	same := replay.Same(work)
	c.made, c.chosen = true, name
	reply, err := c.executeIn(ctx, name, run)
	if err == nil && same != "" {
		reply.Insert("Note", "Same code as job "+same+", which ran it in the same state")
	}
	return reply, err
}

// continueFrom runs the code in the state after an earlier job if that is kept, and nothing again.
// The error is engine.ErrNotKept if it is not.
func (c *call) continueFrom(ctx context.Context, job jobs.Info) (*report.Reply, error) {
	limited, cancel := context.WithTimeout(ctx, c.scope.GraceTime())
	defer cancel()
	status, shared, err := c.Backend.Continue(limited, c.scope, job, c.args.Session)
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
	c.made, c.chosen = true, status.Name
	reply, err := c.executeIn(ctx, status.Name, c.keeping(py, run))
	if err == nil && len(shared) > 0 {
		reply.Insert("Note", "shared with session "+status.Parent+": "+names(shared))
	}
	return reply, err
}

// executeIn runs the code of the call in a session that was made for it.
func (c *call) executeIn(ctx context.Context, session string, run jobs.Runner) (*report.Reply, error) {
	what := c.args.Code
	if c.args.Path != "" {
		what = engine.File{Path: c.args.Path, Args: c.args.Args}.String()
	}
	return c.execute(ctx, jobs.Spec{Kind: jobs.Python, Session: session, Title: view.Title(what)}, run)
}
