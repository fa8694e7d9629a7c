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
	what := c.args.Code
	if c.args.Path != "" {
		what = engine.File{Path: c.args.Path, Args: c.args.Args}.String()
	}
	reply, err := c.execute(ctx, jobs.Spec{Kind: jobs.Python, Session: name, Title: view.Title(what)}, run)
	if err == nil && same != "" {
		reply.Insert("Note", "Same code as job "+same+", which ran it in the same state")
	}
	return reply, err
}
