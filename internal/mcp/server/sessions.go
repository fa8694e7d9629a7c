package server

import (
	"context"
	"errors"
	"fmt"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// session returns the name of the Python session that the call is for.
func (c *call) session() string { return c.scope.SessionName(c.args.Session) }

func (c *call) listVariables(ctx context.Context) (*report.Reply, error) {
	session := c.session()
	py, err := c.Backend.Session(session)
	if err != nil {
		if err = c.absent(err); err == nil {
			return variablesReply(session, "", engine.Variables{}, c.replyChars()), nil
		}
		return nil, err
	}
	c.ticket.Pass()
	vars, err := py.Variables(ctx, c.args.Pattern)
	if err != nil {
		return nil, err
	}
	// There are at most as many characters as bytes.
	return variablesReply(session, c.args.Pattern, vars, c.replyChars()), nil
}

// endedMax is the most jobs ended by a restart that its reply shows.
const endedMax = 20

// restartPython restarts a session's Python. A restart that has begun is completed even if the call
// is cancelled.
func (c *call) restartPython(ctx context.Context) (*report.Reply, error) {
	// A checkpoint can outlive what is known of its job, but not the server.
	_, err := c.jobs.Find(c.args.FromCheckpoint)
	if absent, ok := errors.AsType[*jobs.NotFoundError](err); ok && absent.Earlier {
		return nil, err
	}
	session := c.session()
	r := &report.Reply{}
	r.Line("Session", session)
	py, err := c.Backend.Session(session)
	if err != nil && c.args.FromCheckpoint != "" {
		return nil, err
	}
	if err != nil {
		r.Line("Restarted", restarted(false))
		return r, c.absent(err)
	}
	ended := c.unended(session)
	from, wait, err := c.restart(ctx, py)
	if err != nil {
		return nil, err
	}
	c.ticket.Pass()
	defer c.progress.Start(ctx, 0, func() delivery.Note { return delivery.Note{Line: "restarting session " + session} })()
	end, err := wait(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the restart of session %s has begun and continues", session)
	}
	if from != "" {
		r.Line("Restarted", "yes; the variables are those of the checkpoint of job "+from)
	} else {
		r.Line("Restarted", restarted(end.Had))
	}
	c.showEnd(ctx, r, session, ended, end, err)
	return r, nil
}

// restart begins the restart of a session, and returns the job of the checkpoint that it continues
// from, if the call names one.
func (c *call) restart(ctx context.Context, py engine.Session) (from string, wait func(context.Context) (engine.End, error), err error) {
	const reason = "restart_python_worker"
	if c.args.FromCheckpoint == "" {
		wait, err = py.Restart(c.By, reason)
		return "", wait, err
	}
	return py.RestartFrom(ctx, c.By, reason, c.args.FromCheckpoint)
}

// restarted says what a restart did to a session that had a Python, or that had none.
func restarted(had bool) string {
	if had {
		return "yes; all variables are lost, the next execute starts a new Python"
	}
	return "no Python was running; the next execute starts one"
}

// showEnd adds to a reply what the end of a session's Python has ended: its jobs, once they have
// ended too, and what could not be ended. err is the error of the end.
func (c *call) showEnd(ctx context.Context, r *report.Reply, session string, ended []jobs.Record, end engine.End, err error) {
	ended = c.awaitEnds(ctx, ended)
	for _, record := range ended[:min(endedMax, len(ended))] {
		c.notices.Shows(record)
		if record.Status.Final() {
			r.Line("Ended", c.reporter.Line(record))
		} else {
			r.Line("Still ending", c.reporter.Line(record))
		}
	}
	if left := len(ended) - endedMax; left > 0 {
		r.Line("More", view.CountOf(left, "job")+": list_jobs with session="+session)
	}
	r.Processes("Survivors", end.Survivors, "")
	for _, note := range []string{end.Checkpoints, end.Note} {
		if note != "" {
			r.Line("Note", note)
		}
	}
	if err != nil {
		r.Line("Note", err.Error())
	}
}

// awaitEnds waits until the jobs of a worker that has exited have ended, which happens a little
// later, but no longer than the grace. It returns their state then.
func (c *conn) awaitEnds(ctx context.Context, list []jobs.Record) []jobs.Record {
	ctx, cancel := context.WithTimeout(ctx, c.scope.GraceTime())
	defer cancel()
	for i := range list {
		j, err := c.jobs.Get(list[i].ID)
		if err != nil {
			continue // already forgotten
		}
		select {
		case <-j.Done():
		case <-ctx.Done():
		}
		list[i] = j.Record()
	}
	return list
}
