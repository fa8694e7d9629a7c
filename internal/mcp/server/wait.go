package server

import (
	"context"
	"strings"
	"time"

	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/search"
	"asyncrepl/internal/reply/waits"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// blocksMax is the most jobs that a reply of wait_for_jobs shows in a block of lines each. If there
// are more, or the blocks don't fit, it shows one line each.
const blocksMax = 20

func (c *call) waitForJobs(ctx context.Context) (*report.Reply, error) {
	all := make([]*jobs.Job, 0, len(c.args.JobIDs))
	seen := map[string]bool{}
	for _, id := range c.args.JobIDs {
		j, err := c.find(ctx, id)
		if err != nil {
			return nil, err
		}
		if !seen[j.ID()] {
			seen[j.ID()] = true
			all = append(all, j)
		}
	}
	d := c.waitFor(defaultLonger)
	conds, err := conditionsOf(c.args, len(all), d)
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
	stop := c.progress.Start(ctx, d, func() delivery.Note { return delivery.NoteOfAll(all) })
	outcomes := waits.Wait(ctx, all, conds, d)
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
	if c.args.Show {
		w := c.outputWindow()
		w.MaxChars -= r.Chars() + 1
		w.Notices = nil
		conds.Add(&w, outcomes[0])
		r.Body("")
		r.Add(c.reporter.Job(all[0], w))
		return r, nil
	}
	if len(records) <= blocksMax {
		each := &report.Reply{}
		for i, record := range records {
			c.reporter.Summary(each, all[i], record)
			c.notices.Answered(each, record)
			conds.Add(each, outcomes[i])
			if text := waits.Around(all[i].Log(), outcomes, i); text != "" {
				each.Body(text)
			}
		}
		if r.Chars()+each.Chars() <= arguments.MaxText {
			c.notices.Shows(each.Shown()...)
			r.Add(each)
			return r, nil
		}
	}
	// The replies share the room after a blank line.
	share := (arguments.MaxText - r.Chars() - 1) / len(records)
	var lines strings.Builder
	for i, record := range records {
		line := c.reporter.Waited(record)
		if match := outcomes[i].Line(); match != "" {
			line = record.ID + " has matched, " + match
		}
		lines.WriteString(view.Line(line, share-1) + "\n")
	}
	r.Body(lines.String())
	return r, nil
}

// conditionsOf returns what ends the call's wait for some jobs. The wait takes d at most.
func conditionsOf(args *arguments.Args, jobs int, d time.Duration) (c waits.Conditions, err error) {
	c.Every = args.Until == arguments.UntilAll
	if c.Pattern, err = compile("pattern", args.Pattern); err != nil {
		return c, err
	}
	if c.Stop, err = compile("stop_pattern", args.StopPattern); err != nil {
		return c, err
	}
	if args.Quiet != nil {
		if c.Quiet = *args.Quiet; c.Quiet >= d {
			return c, report.Mistakef("quiet_seconds must be less than wait_seconds, %g.", d.Seconds())
		}
	}
	switch {
	case args.Show && jobs > 1:
		return c, report.Mistakef("show needs one job id: see the output of several with check_job_status.")
	case args.Cursor == nil:
		return c, nil
	case jobs > 1:
		return c, report.Mistakef("cursor needs one job id: each job has cursors of its own.")
	case c.Pattern == nil && c.Stop == nil && !args.Show:
		return c, report.Mistakef("cursor needs pattern or stop_pattern: it says where lines are looked at. Or set show, to read from there.")
	}
	c.From = *args.Cursor
	return c, nil
}

// compile returns the pattern of a parameter, or nil if the call leaves it out.
func compile(name, text string) (*search.Pattern, error) {
	if text == "" {
		return nil, nil
	}
	p, err := search.Compile(text)
	if err != nil {
		return nil, report.Mistakef("%s %v", name, err)
	}
	return p, nil
}
