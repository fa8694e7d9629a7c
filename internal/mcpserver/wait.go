package mcpserver

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"asyncrepl/internal/arguments"
	"asyncrepl/internal/report"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// blocksMax is the most jobs that a reply of wait_for_jobs shows in a block of lines each. If there
// are more, or the blocks don't fit, it shows one line each.
const blocksMax = 20

func (c *call) waitForJobs(ctx context.Context) (*report.Reply, error) {
	all := make([]*jobs.Job, 0, len(c.args.JobIDs))
	seen := map[string]bool{}
	for _, id := range c.args.JobIDs {
		j, err := c.find(id)
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
	stop := c.progress.Start(ctx, d, func() string { return c.reporter.ProgressOf(all) })
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	waitUntil(ctx, all, c.args.Until == arguments.UntilAll)
	stop()

	infos := make([]jobs.Info, len(all))
	for i, j := range all {
		infos[i] = j.Info()
	}
	r := &report.Reply{}
	r.Line("Condition", report.Condition(infos, c.args.Until == arguments.UntilAll))
	r.Line("Waited", report.Duration(time.Since(started)))
	r.Also(c.notices.Also())
	c.notices.Shows(infos...)
	if len(infos) <= blocksMax {
		each := &report.Reply{}
		for i, info := range infos {
			c.reporter.Summary(each, all[i], info)
		}
		if r.Chars()+each.Chars() <= arguments.MaxText {
			c.notices.Shows(each.Shown()...)
			r.Add(each)
			return r, nil
		}
	}
	share := (arguments.MaxText - r.Chars() - 1) / len(infos) // of the room after a blank line
	var lines strings.Builder
	for _, info := range infos {
		lines.WriteString(view.Line(c.reporter.Line(info), share-1) + "\n")
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
