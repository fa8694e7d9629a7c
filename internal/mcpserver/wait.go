package mcpserver

import (
	"context"
	"strings"
	"time"

	"asyncrepl/internal/arguments"
	"asyncrepl/internal/conditions"
	"asyncrepl/internal/news"
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
			all = append(all, j)
		}
	}
	d := c.waitFor(defaultLonger)
	conds, err := conditions.Of(c.args, len(all), d)
	if err == nil {
		err = withinOutput(all[0], conds.From)
	}
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		c.notices.Watch(j)
	}
	c.ticket.Pass()
	started := time.Now()
	stop := c.progress.Start(ctx, d, func() news.Note { return news.OfAll(all) })
	outcomes := conditions.Wait(ctx, all, conds, d)
	stop()

	records := make([]jobs.Record, len(all))
	for i := range outcomes {
		records[i] = outcomes[i].Record()
	}
	r := &report.Reply{}
	r.Line("Condition", conds.Describe(outcomes))
	r.Line("Waited", report.Duration(time.Since(started)))
	r.Also(c.notices.Also())
	c.notices.Shows(records...)
	if len(records) <= blocksMax {
		each := &report.Reply{}
		for i, record := range records {
			c.reporter.Summary(each, all[i], record)
			conds.Add(each, outcomes[i])
		}
		if r.Chars()+each.Chars() <= arguments.MaxText {
			c.notices.Shows(each.Shown()...)
			r.Add(each)
			return r, nil
		}
	}
	share := (arguments.MaxText - r.Chars() - 1) / len(records) // of the room after a blank line
	var lines strings.Builder
	for i, record := range records {
		line := c.reporter.Line(record)
		if match := outcomes[i].Line(); match != "" {
			line = record.ID + " has matched, " + match
		}
		lines.WriteString(view.Line(line, share-1) + "\n")
	}
	r.Body(lines.String())
	return r, nil
}
