package server

import (
	"context"
	"time"

	"asyncrepl/internal/mcp/delivery"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/search"
)

const (
	defaultMatches = 50
	// searchTime bounds a search, because some expressions are slow: some clients cancel a call after
	// a minute.
	searchTime = 50 * time.Second
)

func (c *call) searchJobOutput(ctx context.Context) (*report.Reply, error) {
	pattern, err := search.Compile(c.args.Pattern)
	if err != nil {
		return nil, report.Mistakef("pattern %v", err)
	}
	j, err := c.find(ctx, c.args.JobID)
	if err != nil {
		return nil, err
	}
	q := search.Query{Pattern: pattern, Matches: defaultMatches, Limit: searchTime}
	if c.args.MaxMatches != nil {
		q.Matches = int(*c.args.MaxMatches)
	}
	if c.args.Context != nil {
		q.Context = int(*c.args.Context)
	}
	if c.args.Cursor != nil {
		q.From = *c.args.Cursor
		if err := withinOutput(j, q.From); err != nil {
			return nil, err
		}
	}
	c.notices.Watch(j)
	c.ticket.Pass()
	record, live := j.Record(), j.Live()
	defer c.progress.Start(ctx, searchTime, func() delivery.Note { return delivery.Note{Line: "searching the output of job " + j.ID()} })()
	found, err := search.Run(ctx, j.Log(), q)
	if err != nil {
		return nil, err
	}
	c.notices.Shows(record)
	return found.Reply(c.reporter, record, live, c.notices.Also(), c.replyChars()), nil
}
