package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// remainsStep is the time between the rungs for processes that an ended job left running. They have
// ignored a hangup already, so the ladder starts at terminate.
const remainsStep = time.Second

// reporter returns what puts the jobs of the connection into words.
func (c *conn) reporter() *report.Reporter {
	return &report.Reporter{Jobs: c.jobs}
}

// window selects the output from a cursor on, with as much room as the call asks for.
func (c *call) window(from int64) report.Window {
	w := report.Window{From: from, MaxChars: defaultText, Notices: c.notices}
	if c.args.maxChars != nil {
		w.MaxChars = int(*c.args.maxChars)
	}
	return w
}

func (c *call) checkJobStatus(ctx context.Context) (*report.Reply, error) {
	j, err := c.job(c.args.jobID)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, j)
}

func (c *call) checkPythonStatus(ctx context.Context) (*report.Reply, error) {
	if c.args.jobID != "" {
		j, err := c.job(c.args.jobID)
		if err != nil {
			return nil, err
		}
		if s := j.Info().Session; c.args.session != "" && c.args.session != s {
			return nil, mistakef("Job %s is not one of session %s. Leave session out.", j.ID(), c.args.session)
		}
		return c.check(ctx, j)
	}
	session := c.session()
	var last string
	for _, info := range c.jobs.List(c.scope.Tenant, jobs.Filter{Session: session}) { // newest first
		if info.Kind != jobs.Python {
			continue
		}
		if info.Status == jobs.Running || info.Status == jobs.WaitingInput {
			last = info.ID
			break
		}
		if last == "" {
			last = info.ID
		}
	}
	if last == "" {
		if c.args.cursor != nil {
			return nil, mistakef("Session %s has no Python job yet, so there is no output at a cursor.", session)
		}
		return report.Textf("No Python job yet in session %s.", session), nil
	}
	j, err := c.job(last)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, j)
}

func (c *call) check(ctx context.Context, j *jobs.Job) (*report.Reply, error) {
	c.notices.Watch(j)
	c.await(ctx, j, 0)
	w := c.window(0)
	if c.args.cursor == nil {
		w.Newest = true
	} else {
		w.From = *c.args.cursor
		if end := j.Log().Stat().End; w.From > end {
			return nil, mistakef("cursor %d is beyond the end of job %s's output, %d. Use the Cursor of an earlier reply about this job.", w.From, j.ID(), end)
		}
	}
	return c.reporter().Job(j, w), nil
}

func (c *call) listJobs(_ context.Context) (*report.Reply, error) {
	limit := defaultList
	if c.args.limit != nil {
		limit = int(*c.args.limit)
	}
	if c.args.before != "" {
		if _, err := c.job(c.args.before); err != nil {
			return nil, err
		}
	}
	f := jobs.Filter{Session: c.args.session, Before: c.args.before, Limit: limit + 1} // one more, to know whether there are more
	if c.args.status != "" {
		f.Status = []jobs.Status{jobs.Status(c.args.status)}
	}
	list := c.jobs.List(c.scope.Tenant, f)
	if len(list) == 0 && (c.args.status != "" || c.args.session != "" || c.args.before != "") {
		return report.Textf("No such jobs."), nil
	}
	if len(list) == 0 {
		return report.Textf("No jobs yet."), nil
	}
	text, shown := c.reporter().Lines(list[:min(limit, len(list))], maxText-headRoom)
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

// cancelJob asks a job to stop and waits for that during the grace. For a job that has ended, it
// ends the processes that the job left running.
func (c *call) cancelJob(ctx context.Context) (*report.Reply, error) {
	j, err := c.job(c.args.jobID)
	if err != nil {
		return nil, err
	}
	c.notices.Watch(j)
	w := c.window(j.Log().Stat().End)
	if j.Info().Status.Final() {
		c.ticket.Pass()
		defer c.progress.start(ctx, 0, func() string { return "ending the processes it left running" })()
		if !c.endRemains(ctx, j, c.args.force, &w) {
			w.Line("Note", "it had ended before, and nothing of it is running")
		}
		return c.reporter().Job(j, w), nil
	}
	st := jobs.Stop{By: jobs.Agent, From: jobs.Interrupt}
	if c.args.force {
		st.From = jobs.Kill
	}
	j.Stop(st)
	c.ticket.Pass()
	defer c.progress.start(ctx, c.scope.GraceTime(), func() string { return c.reporter().Progress(j) })()
	grace := time.NewTimer(c.scope.GraceTime())
	defer grace.Stop()
	select {
	case <-j.Done():
	case <-grace.C:
	case <-ctx.Done():
	}
	if info := j.Info(); info.Status.Final() && info.Receipt.Stop == nil {
		c.endRemains(ctx, j, c.args.force, &w) // it has ended by itself
	}
	return c.reporter().Job(j, w), nil
}

// endRemains ends the processes that an ended job left running, adds the outcome to w, and reports
// whether there were any.
func (c *conn) endRemains(ctx context.Context, j *jobs.Job, force bool, w *report.Window) (found bool) {
	st := jobs.Stop{By: jobs.Agent, From: jobs.Terminate, Step: remainsStep}
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

// blocksMax is the most jobs that a reply of wait_for_jobs shows in a block of lines each. If there
// are more, or the blocks don't fit, it shows one line each.
const blocksMax = 20

func (c *call) waitForJobs(ctx context.Context) (*report.Reply, error) {
	all := make([]*jobs.Job, 0, len(c.args.jobIDs))
	seen := map[string]bool{}
	for _, id := range c.args.jobIDs {
		j, err := c.job(id)
		if err != nil {
			return nil, err
		}
		if !seen[j.ID()] {
			seen[j.ID()] = true
			c.notices.Watch(j)
			all = append(all, j)
		}
	}
	c.ticket.Pass()
	started := time.Now()
	d := c.waitFor(defaultLonger)
	stop := c.progress.start(ctx, d, func() string { return c.reporter().ProgressOf(all) })
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	waitUntil(ctx, all, c.args.until == untilAll)
	stop()

	infos := make([]jobs.Info, len(all))
	for i, j := range all {
		infos[i] = j.Info()
	}
	r := &report.Reply{}
	r.Line("Condition", condition(infos, c.args.until == untilAll))
	r.Line("Waited", report.Duration(time.Since(started)))
	r.Also(c.notices.Also())
	c.notices.Shows(infos...)
	if len(infos) <= blocksMax {
		each := &report.Reply{}
		for i, info := range infos {
			c.reporter().Summary(each, all[i], info)
		}
		if r.Chars()+each.Chars() <= maxText {
			c.notices.Shows(each.Shown()...)
			r.Add(each)
			return r, nil
		}
	}
	share := (maxText - r.Chars() - 1) / len(infos) // of the room after a blank line
	var lines strings.Builder
	for _, info := range infos {
		lines.WriteString(view.Line(c.reporter().Line(info), share-1) + "\n")
	}
	r.Body(lines.String())
	return r, nil
}

// errMet ends the waits of a call whose condition is met.
var errMet = errors.New("the condition is met")

// waitUntil returns when one or all of the jobs have ended, when one asks for input, or when ctx is
// done.
func waitUntil(ctx context.Context, all []*jobs.Job, every bool) {
	waits, ctx := errgroup.WithContext(ctx)
	for _, j := range all {
		waits.Go(func() error { // owned by this call, which waits for it; ends with the first error
			if err := j.Await(ctx); err != nil {
				return err
			}
			if !every || !j.Info().Status.Final() {
				return errMet
			}
			return nil
		})
	}
	_ = waits.Wait() // the reply shows the state of the jobs
}

// condition describes why the wait has ended.
func condition(infos []jobs.Info, every bool) string {
	ended := 0
	var met []string
	for _, info := range infos {
		if info.Asks() {
			met = append(met, "job "+info.ID+" waits for input")
		}
		if info.Status.Final() {
			ended++
			if !every {
				met = append(met, "job "+info.ID+" "+string(info.Status))
			}
		}
	}
	if every && ended == len(infos) {
		return "met: all have ended"
	}
	if len(met) > 0 {
		slices.Sort(met)
		const most = 3
		if len(met) > most {
			met = append(met[:most], fmt.Sprintf("%d more", len(met)-most))
		}
		return "met: " + strings.Join(met, ", ")
	}
	return fmt.Sprintf("not met: %d of %d have ended; call again to wait longer", ended, len(infos))
}

func (c *call) serverStatus(context.Context) (*report.Reply, error) {
	c.ticket.Pass()
	return c.reporter().Server(c.Backend.Status(c.scope)), nil
}
