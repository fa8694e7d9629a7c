package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// remainsStep is the time between the rungs for what an ended job left behind:
// it ignored a hangup already, so nothing milder than a termination is tried.
const remainsStep = time.Second

// reporter puts the jobs of the connection into words.
func (c *conn) reporter() *report.Reporter {
	return &report.Reporter{Jobs: c.Jobs, Busy: c.Busy, Usage: c.Usage}
}

// window shows the output from a cursor on, as far as the call has room for it.
func (a *args) window(from int64) report.Window {
	w := report.Window{From: from, MaxChars: defaultText, Also: func(shown []jobs.Info) []jobs.Info {
		a.shows(shown...)
		return a.also()
	}}
	if a.maxChars != nil {
		w.MaxChars = int(*a.maxChars)
	}
	return w
}

func (c *conn) checkJobStatus(ctx context.Context, a *args) (*report.Reply, error) {
	j, err := c.Jobs.Get(c.scope.Tenant, a.jobID)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, a, j)
}

func (c *conn) checkPythonStatus(ctx context.Context, a *args) (*report.Reply, error) {
	if a.jobID != "" {
		j, err := c.Jobs.Get(c.scope.Tenant, a.jobID)
		if err != nil {
			return nil, err
		}
		if s := j.Info().Session; a.session != "" && a.session != s {
			return nil, mistakef("Job %s is not one of session %s. Leave session out.", j.ID(), a.session)
		}
		return c.check(ctx, a, j)
	}
	session := c.session(a)
	var last string
	for _, info := range c.Jobs.List(c.scope.Tenant, jobs.Filter{Session: session}) { // newest first
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
		if a.cursor != nil {
			return nil, mistakef("Session %s has no Python job yet, so there is no output at a cursor.", session)
		}
		return report.Textf("No Python job yet in session %s.", session), nil
	}
	j, err := c.Jobs.Get(c.scope.Tenant, last)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, a, j)
}

func (c *conn) check(ctx context.Context, a *args, j *jobs.Job) (*report.Reply, error) {
	a.follow(j)
	c.await(ctx, a, j, 0)
	w := a.window(0)
	if a.cursor == nil {
		w.Newest = true
	} else {
		w.From = *a.cursor
		if end := j.Log().Stat().End; w.From > end {
			return nil, mistakef("cursor %d is beyond the end of job %s's output, %d. Use the Cursor of an earlier reply about this job.", w.From, j.ID(), end)
		}
	}
	return c.reporter().Job(j, w), nil
}

func (c *conn) listJobs(_ context.Context, a *args) (*report.Reply, error) {
	limit := defaultList
	if a.limit != nil {
		limit = int(*a.limit)
	}
	if a.before != "" {
		if _, err := c.Jobs.Get(c.scope.Tenant, a.before); err != nil {
			return nil, err
		}
	}
	f := jobs.Filter{Session: a.session, Before: a.before, Limit: limit + 1} // one more, to know whether there is
	if a.status != "" {
		f.Status = []jobs.Status{jobs.Status(a.status)}
	}
	list := c.Jobs.List(c.scope.Tenant, f)
	if len(list) == 0 && (a.status != "" || a.session != "" || a.before != "") {
		return report.Textf("No such jobs."), nil
	}
	if len(list) == 0 {
		return report.Textf("No jobs yet."), nil
	}
	text, shown := c.reporter().Lines(list[:min(limit, len(list))], maxText-headRoom)
	more := len(list) > shown
	list = list[:shown]
	a.shows(list...)
	r := &report.Reply{}
	r.Line("Jobs", fmt.Sprintf("%d, newest first", shown))
	if more {
		r.Line("More", "list_jobs with before="+list[shown-1].ID)
	}
	r.Body(text)
	return r, nil
}

// headRoom is the room for what stands before a list of jobs, in characters.
const headRoom = 1000

// cancelJob asks a job to end, waits its grace and tells how far that came; of a
// job that has ended it ends what was left running.
func (c *conn) cancelJob(ctx context.Context, a *args) (*report.Reply, error) {
	j, err := c.Jobs.Get(c.scope.Tenant, a.jobID)
	if err != nil {
		return nil, err
	}
	a.follow(j)
	w := a.window(j.Log().Stat().End)
	if j.Info().Status.Final() {
		a.turn.pass()
		defer a.teller.start(ctx, 0, func() string { return "ending what it left running" })()
		if !c.endRemains(ctx, j, a.force, &w) {
			w.Line("Note", "it had ended before, and nothing of it is running")
		}
		return c.reporter().Job(j, w), nil
	}
	st := jobs.Stop{By: jobs.Agent, From: jobs.Interrupt}
	if a.force {
		st.From = jobs.Kill
	}
	j.Stop(st)
	a.turn.pass()
	defer a.teller.start(ctx, c.grace(), func() string { return c.reporter().Progress(j) })()
	grace := time.NewTimer(c.grace())
	defer grace.Stop()
	select {
	case <-j.Done():
	case <-grace.C:
	case <-ctx.Done():
	}
	if info := j.Info(); info.Status.Final() && info.Receipt.Stop == nil {
		c.endRemains(ctx, j, a.force, &w) // it ended by itself meanwhile
	}
	return c.reporter().Job(j, w), nil
}

// endRemains ends what an ended job left running and says in w what came of it. It
// reports whether there was any.
func (c *conn) endRemains(ctx context.Context, j *jobs.Job, force bool, w *report.Window) (found bool) {
	st := jobs.Stop{By: jobs.Agent, From: jobs.Terminate, Step: remainsStep}
	if force {
		st.From = jobs.Kill
	}
	ended, survivors, found := j.EndRemains(ctx, st)
	if !found {
		return false
	}
	if len(ended) > 0 {
		w.Line("Ended now", report.Names(ended))
	}
	if len(survivors) > 0 {
		w.Line("Survivors", report.Names(survivors))
	}
	if len(ended)+len(survivors) == 0 {
		w.Line("Note", "what it had left running has ended")
	}
	return true
}

// blocksMax is how many jobs a reply of wait_for_jobs shows in a block of lines,
// if there is room for that; else it shows a line each.
const blocksMax = 20

func (c *conn) waitForJobs(ctx context.Context, a *args) (*report.Reply, error) {
	all := make([]*jobs.Job, 0, len(a.jobIDs))
	seen := map[string]bool{}
	for _, id := range a.jobIDs {
		j, err := c.Jobs.Get(c.scope.Tenant, id)
		if err != nil {
			return nil, err
		}
		if !seen[j.ID()] {
			seen[j.ID()] = true
			a.follow(j)
			all = append(all, j)
		}
	}
	a.turn.pass()
	started := time.Now()
	d := a.waitFor(defaultLonger)
	stop := a.teller.start(ctx, d, func() string { return c.reporter().ProgressOf(all) })
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	waitUntil(ctx, all, a.until == untilAll)
	stop()

	infos := make([]jobs.Info, len(all))
	for i, j := range all {
		infos[i] = j.Info()
	}
	r := &report.Reply{}
	r.Line("Condition", condition(infos, a.until == untilAll))
	r.Line("Waited", report.Duration(time.Since(started)))
	r.Also(a.also())
	a.shows(infos...)
	if len(infos) <= blocksMax {
		each := &report.Reply{}
		for i, info := range infos {
			c.reporter().Summary(each, all[i], info)
		}
		if r.Chars()+each.Chars() <= maxText {
			a.shows(each.Shown()...)
			r.Add(each)
			return r, nil
		}
	}
	share := (maxText - r.Chars() - 1) / len(infos) // of the room behind a blank line
	var lines strings.Builder
	for _, info := range infos {
		lines.WriteString(view.Line(c.reporter().Line(info), share-1) + "\n")
	}
	r.Body(lines.String())
	return r, nil
}

// waitUntil returns when one or all of the jobs have ended, when one asks for
// input, or when ctx is done.
func waitUntil(ctx context.Context, all []*jobs.Job, every bool) {
	ctx, cancel := context.WithCancel(ctx)
	news := make(chan *jobs.Job, len(all)) // as many as will ever be sent
	for _, j := range all {
		go func() { // owned by this call, which drains news; ends with ctx
			_ = j.Await(ctx)
			news <- j
		}()
	}
	left := len(all)
	for ; left > 0; left-- {
		j := <-news
		if ctx.Err() != nil || !every || !j.Info().Status.Final() {
			left--
			break
		}
	}
	cancel()
	for ; left > 0; left-- {
		<-news
	}
}

// condition says what ended a wait.
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

func (c *conn) serverStatus(ctx context.Context, a *args) (*report.Reply, error) {
	a.turn.pass()
	var s ServerStatus
	if c.Status != nil {
		s = c.Status(ctx, c.scope)
	}
	return c.reporter().Server(report.Server{
		Version: c.Version, Workspace: c.scope.Workspace, ServerStatus: s,
		Jobs: c.Jobs.Count(c.scope.Tenant), Disk: c.Jobs.Usage(),
	}), nil
}
