package server

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// askTime limits the run time of a job that asks for something of a namespace. Longer work is for
// execute_python.
const askTime = 30 * time.Second

// inspectMax is how many characters a reply about an object has. The rest of the documentation can
// be read from the reply's cursor on.
const inspectMax = 3000

func (c *call) getVariable(ctx context.Context) (*report.Reply, error) {
	j, err := c.ask(ctx, "get_variable "+c.args.Name, engine.Request{Do: "get", Format: c.args.Format}, c.args.Name)
	if err != nil {
		return nil, err
	}
	w := c.window(0)
	if c.args.Cursor != nil {
		w.From, w.Part = *c.args.Cursor, report.Forward
		if end := j.Log().Stat().End; w.From > end {
			if j.Record().Status == jobs.Completed {
				return nil, report.Mistakef("cursor %d is beyond the end of the value, %d.", w.From, end)
			}
			w.From = end // the reply says why there is no value
		}
	}
	return c.reporter.Job(j, w), nil
}

func (c *call) setVariable(ctx context.Context) (*report.Reply, error) {
	return c.answer(ctx, "set_variable "+c.args.Name, engine.Request{Do: "set", Name: c.args.Name, Value: string(c.args.Value)}, "")
}

func (c *call) deleteVariables(ctx context.Context) (*report.Reply, error) {
	which := strings.Join(c.args.Names, ", ")
	switch {
	case c.args.All && which != "":
		return nil, report.Mistakef("Give names, or all=true, but not both.")
	case c.args.All:
		which = "all"
	case c.args.Names == nil:
		return nil, report.Mistakef("Give the names of the variables, or all=true.")
	}
	return c.answer(ctx, "delete_variables "+which, engine.Request{Do: "delete", Names: c.args.Names, All: c.args.All}, "")
}

func (c *call) inspectObject(ctx context.Context) (*report.Reply, error) {
	j, err := c.ask(ctx, "inspect_object "+c.args.Name, engine.Request{Do: "inspect", Source: c.args.Source}, c.args.Name)
	if err != nil {
		return nil, err
	}
	w := c.window(0)
	if !c.args.Source { // a documentation begins with what matters most
		w.Part, w.MaxChars = report.Forward, min(w.MaxChars, inspectMax)
	}
	return c.reporter.Job(j, w), nil
}

func (c *call) completeCode(ctx context.Context) (*report.Reply, error) {
	code := c.args.Code
	at := utf8.RuneCountInString(code)
	if c.args.Cursor != nil {
		if *c.args.Cursor > int64(at) {
			return nil, report.Mistakef("cursor %d is beyond the end of the code, %d.", *c.args.Cursor, at)
		}
		at = int(*c.args.Cursor)
	}
	before := string([]rune(code)[:at])
	what := before[strings.LastIndexByte(before, '\n')+1:]
	return c.answer(ctx, "complete_code "+what, engine.Request{Do: "complete", At: at}, code)
}

// answer asks, and returns the reply with the answer.
func (c *call) answer(ctx context.Context, what string, q engine.Request, code string) (*report.Reply, error) {
	j, err := c.ask(ctx, what, q, code)
	if err != nil {
		return nil, err
	}
	return c.reporter.Job(j, c.window(0)), nil
}

// ask starts the job of a request and waits for it during the grace. A job whose turn has not come
// by then is not run any more.
func (c *call) ask(ctx context.Context, what string, q engine.Request, code string) (*jobs.Job, error) {
	session := c.session()
	py, err := c.Backend.Session(session)
	if err != nil {
		return nil, err
	}
	limit, spare := askTime, true
	if d := c.scope.Timeout; d > 0 && d <= limit {
		limit, spare = d, false // the operator's own limit
	}
	grace := c.scope.GraceTime()
	j, err := c.jobs.Start(jobs.Spec{
		Kind: jobs.Python, Aside: true, Session: session, Title: view.Title(what), Code: what, Timeout: limit, Spare: spare,
	}, py.Ask(q, code, grace))
	if err != nil {
		return nil, err
	}
	c.changes.Changed()
	c.notices.Watch(j)
	c.await(ctx, j, grace)
	j.AwaitStart(ctx) // it runs now, or it has left the queue
	return j, nil
}
