package server

import (
	"context"
	"time"

	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// remainsStep is the time between the rungs for processes that an ended job left running. They have
// ignored a hangup already, so the ladder starts at terminate.
const remainsStep = time.Second

// cancelJob asks a job to stop and waits for that during the grace. Only force costs a Python session
// the variables that it had. For a job that has ended, it
// ends the processes that the job left running, and waits as long for that.
func (c *call) cancelJob(ctx context.Context) (*report.Reply, error) {
	j, err := c.job(ctx, c.args.JobID)
	if err != nil {
		return nil, err
	}
	c.notices.Watch(j)
	limited, cancel := context.WithTimeout(ctx, c.scope.GraceTime())
	defer cancel()
	w := c.window(j.Log().Stat().End)
	if j.Record().Status.Final() {
		c.ticket.Pass()
		defer c.progress.Start(ctx, 0, func() delivery.Note { return delivery.Note{Line: "ending the processes it left running"} })()
		switch found := c.endRemains(limited, j, c.args.Force, &w); {
		case found:
		case j.Record().Receipt.Unseen():
			w.Line("Note", "it had ended before, and nothing of it can be ended from here")
		case j.Record().Kind == jobs.Python:
			w.Line("Note", "it had ended before; what it started belongs to its session, and restart_python_worker ends that")
		default:
			w.Line("Note", "it had ended before, and nothing of it is running")
		}
		return c.reporter.Job(j, w), nil
	}
	st := jobs.Stop{By: c.By, From: jobs.Interrupt, Spare: j.Record().Kind == jobs.Python}
	if c.args.Force {
		st.From, st.Spare = jobs.Kill, false
	}
	j.Stop(st)
	c.ticket.Pass()
	defer c.progress.Start(ctx, c.scope.GraceTime(), func() delivery.Note { return delivery.NoteOf(j) })()
	select {
	case <-j.Done():
	case <-limited.Done():
	}
	if record := j.Record(); record.Status.Final() && record.Receipt.Stop == nil {
		c.endRemains(limited, j, c.args.Force, &w) // it has ended by itself
	}
	return c.reporter.Job(j, w), nil
}

// endRemains ends the processes that an ended job left running, adds the outcome to w, and reports
// whether there were any.
func (c *conn) endRemains(ctx context.Context, j *jobs.Job, force bool, w *report.Window) (found bool) {
	st := jobs.Stop{By: c.By, From: jobs.Terminate, Step: remainsStep}
	if force {
		st.From = jobs.Kill
	}
	remains, found := j.Cleanup(ctx, st)
	if !found {
		return false
	}
	if remains.Err != nil {
		w.Line("Note", remains.Err.Error())
		return true
	}
	if remains.Pending {
		w.Line("Note", "the processes it left running are still being ended")
		return true
	}
	if len(remains.Ended) > 0 {
		w.Line("Ended now", report.Names(remains.Ended))
	}
	if len(remains.Survivors) > 0 {
		w.Line("Survivors", report.Names(remains.Survivors))
	}
	if len(remains.Ended)+len(remains.Survivors) == 0 {
		w.Line("Note", "the processes it had left running have ended")
	}
	return true
}
