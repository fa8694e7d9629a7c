package server

import (
	"cmp"
	"context"
	"fmt"

	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// Lengths of replies for which the call sets none.
const (
	defaultText = 16_000 // characters, if Config sets none
	newestText  = 2_000  // characters of the output of a running job
	floodText   = 4_000  // characters, if the output is a flood
	defaultList = 20     // jobs
)

// replyChars returns how many characters a reply has at most if the call sets none.
func (c *Config) replyChars() int { return cmp.Or(c.MaxChars, defaultText) }

// window selects the output from a cursor on, with as much room as the call asks for.
func (c *call) window(from int64) report.Window {
	w := report.Window{From: from, Part: report.Ends, MaxChars: c.replyChars(), FloodMax: floodText, Notices: c.notices}
	if c.args.MaxChars != nil {
		w.MaxChars, w.FloodMax = int(*c.args.MaxChars), 0
	}
	return w
}

func (c *call) checkJobStatus(ctx context.Context) (*report.Reply, error) {
	j, err := c.find(ctx, c.args.JobID)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, j)
}

func (c *call) checkPythonStatus(ctx context.Context) (*report.Reply, error) {
	if c.args.JobID != "" {
		j, err := c.find(ctx, c.args.JobID)
		if err != nil {
			return nil, err
		}
		if s := j.Record().Session; c.args.Session != "" && c.args.Session != s {
			return nil, report.Mistakef("Job %s is not one of session %s. Leave session out.", j.ID(), c.args.Session)
		}
		return c.check(ctx, j)
	}
	session := c.session()
	var last string
	for record := range c.jobs.All(jobs.Filter{Session: session}) { // newest first
		if record.Kind != jobs.Python {
			continue
		}
		if record.Status == jobs.Running || record.Status == jobs.WaitingInput {
			last = record.ID
			break
		}
		if last == "" && !record.Aside {
			last = record.ID
		}
	}
	if last == "" {
		if err := c.exists(session); err != nil {
			return nil, err
		}
		if c.args.Cursor != nil {
			return nil, report.Mistakef("Session %s has no Python job yet, so there is no output at a cursor.", session)
		}
		return report.Textf("No Python job yet in session %s.", session), nil
	}
	j, err := c.jobs.Get(last)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, j)
}

func (c *call) check(ctx context.Context, j *jobs.Job) (*report.Reply, error) {
	if c.args.View == report.ScreenView && c.args.Cursor != nil {
		if *c.args.Cursor > 0 {
			return nil, report.Mistakef("view=screen shows the screen as it is now, at no cursor. Leave cursor out, or use view=text.")
		}
		c.args.Cursor = nil // some clients can't leave it out
	}
	c.notices.Watch(j)
	c.await(ctx, j, 0)
	if c.args.View == report.ScreenView {
		if why := report.NoScreen(j.Record()); why != "" {
			return nil, report.Mistakef("%s", why)
		}
	}
	w := c.outputWindow()
	w.Look, w.View = true, c.args.View
	if err := withinOutput(j, w.From); err != nil {
		return nil, err
	}
	return c.reporter.Job(j, w), nil
}

// outputWindow selects the output from the cursor of the call on or, if it has none, the newest
// output of a running job and all of an ended one.
func (c *call) outputWindow() report.Window {
	w := c.window(0)
	if c.args.Cursor != nil {
		w.From, w.Part = *c.args.Cursor, report.Forward
		return w
	}
	w.Part = report.Newest
	if c.args.MaxChars == nil {
		w.NewestMax = newestText
	}
	return w
}

// withinOutput returns an error if a cursor is beyond the end of a job's output.
func withinOutput(j *jobs.Job, cursor int64) error {
	if end := j.Log().Stat().End; cursor > end {
		return report.Mistakef("cursor %d is beyond the end of job %s's output, %d. Use the Cursor of an earlier reply about this job.", cursor, j.ID(), end)
	}
	return nil
}

func (c *call) listJobs(_ context.Context) (*report.Reply, error) {
	limit := defaultList
	if c.args.Limit != nil {
		limit = int(*c.args.Limit)
	}
	if c.args.Before != "" {
		if _, err := c.jobs.Get(c.args.Before); err != nil {
			return nil, err
		}
	}
	// It asks for one more, to know whether there are more.
	f := jobs.Filter{Session: c.args.Session, Before: c.args.Before, Limit: limit + 1}
	if c.args.Status != "" {
		f.Status = []jobs.Status{jobs.Status(c.args.Status)}
	}
	list := c.jobs.List(f)
	if len(list) == 0 && c.args.Session != "" && len(c.jobs.List(jobs.Filter{Session: c.args.Session, Limit: 1})) == 0 {
		if err := c.exists(c.args.Session); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 && (c.args.Status != "" || c.args.Session != "" || c.args.Before != "") {
		return report.Textf("No such jobs."), nil
	}
	if len(list) == 0 {
		return report.Textf("No jobs yet."), nil
	}
	text, shown := c.reporter.Lines(list[:min(limit, len(list))], c.replyChars()-headRoom)
	more := len(list) > shown
	list = list[:shown]
	c.notices.Shows(list...)
	r := &report.Reply{}
	r.Line("Jobs", fmt.Sprintf("%d, newest first", shown))
	if more {
		r.Line("More", "list_jobs with before="+list[shown-1].ID)
	}
	r.Body(text)
	return r, nil
}

// headRoom is the room for the lines before a list of jobs, in characters.
const headRoom = 1000

func (c *call) serverStatus(ctx context.Context) (*report.Reply, error) {
	c.ticket.Pass()
	status := c.Backend.Status(c.scope)
	status.Page, status.Places = c.Page, c.listPlaces(ctx)
	for _, line := range status.Unprotected {
		c.notices.Once(line) // this reply says it
	}
	return status.Reply(), nil
}
