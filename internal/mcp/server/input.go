package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"asyncrepl/internal/reply/report"
	"asyncrepl/jobs"
)

// sendPythonInput answers the question of a Python job. If no job asks, the text is refused and not
// kept: it would answer a later question.
func (c *call) sendPythonInput(ctx context.Context) (*report.Reply, error) {
	if strings.Contains(strings.TrimSuffix(c.args.Text, "\n"), "\n") {
		return nil, report.Mistakef("text must be one line; nothing was sent. Send one line for each question.")
	}
	j, err := c.asking(ctx)
	if err != nil {
		return nil, err
	}
	in := jobs.Input{By: c.By, Text: c.args.Text, Line: c.args.Text != "" || !c.args.EOF, EOF: c.args.EOF}
	if q := j.Record().Question; q != nil {
		in.Secret = q.Kind == "secret"
	}
	return c.send(ctx, j, in)
}

// asking returns the Python job that the input is for.
func (c *call) asking(ctx context.Context) (*jobs.Job, error) {
	if c.args.JobID != "" {
		j, err := c.job(ctx, c.args.JobID)
		if err == nil && j.Record().Kind != jobs.Python {
			err = report.Mistakef("Job %s is a %s job: use send_command_input. Nothing was sent.", j.ID(), j.Record().Kind)
		}
		if err == nil && c.args.Session != "" && c.session() != j.Record().Session {
			err = report.Mistakef("Job %s is not one of session %s; nothing was sent. Leave session out.", j.ID(), c.args.Session)
		}
		return j, err
	}
	waiting := jobs.Filter{Status: []jobs.Status{jobs.WaitingInput}}
	if c.args.Session != "" {
		waiting.Session = c.session()
		if err := c.exists(waiting.Session); err != nil {
			return nil, err
		}
	}
	var asking []jobs.Record
	for _, record := range c.jobs.List(waiting) {
		if record.Kind == jobs.Python {
			asking = append(asking, record)
		}
	}
	switch {
	case len(asking) == 0 && waiting.Session != "":
		return nil, report.Mistakef("No Python job of session %s waits for input; nothing was sent or kept.", waiting.Session)
	case len(asking) == 0:
		return nil, report.Mistakef("No Python job waits for input; nothing was sent or kept.")
	case len(asking) == 1:
		return c.jobs.Get(asking[0].ID)
	}
	text, shown := c.reporter.Lines(asking, c.replyChars()-headRoom)
	c.notices.Shows(asking[:shown]...)
	text = "Several Python jobs wait for input; nothing was sent. Name one by job_id or session:\n" + strings.TrimSuffix(text, "\n")
	if left := len(asking) - shown; left > 0 {
		text += fmt.Sprintf("\n%d more: see list_jobs with status=waiting_input", left)
	}
	return nil, report.Mistakef("%s", text)
}

func (c *call) sendCommandInput(ctx context.Context) (*report.Reply, error) {
	a := c.args
	pressed, err := a.KeySequence()
	if err != nil {
		return nil, err
	}
	in := jobs.Input{By: c.By, Size: a.Size, Signal: a.Signal, Text: a.Text, Paste: a.Paste, Keys: pressed, EOF: a.EOF, Secret: a.Secret}
	switch {
	case in.Paste && in.Text == "":
		return nil, report.Mistakef("paste needs text: it is what is pasted.")
	case !in.Types() && in.Size == jobs.Size{} && in.Signal == "":
		return nil, report.Mistakef(`There is nothing to send: give text (a line ends with \n), keys, eof, signal or size.`)
	}
	j, err := c.job(ctx, a.JobID)
	if err != nil {
		return nil, err
	}
	plain := len(in.Keys) == 0 && !in.Paste && in.Size == jobs.Size{} && in.Signal == ""
	if kind := j.Record().Kind; kind != jobs.Shell && !plain {
		return nil, report.Mistakef("Job %s is a %s job: only shell jobs take keys, paste, size and signal. %s Nothing was sent.", j.ID(), elsewhere[kind].name, elsewhere[kind].remedy)
	}
	return c.send(ctx, j, in)
}

// elsewhere names the jobs that are no shell jobs, and says what to use for them.
var elsewhere = map[jobs.Kind]struct{ name, remedy string }{
	jobs.Python:  {"Python", "Answer a question with send_python_input; cancel_job interrupts."},
	jobs.Package: {"package", "It asks for nothing; cancel_job ends it."},
}

// deliverTime is how long the next call waits for input to be delivered. Input that is delivered
// within it arrives in the order in which it was sent; a program that reads nothing must not hold
// up calls.
const deliverTime = 50 * time.Millisecond

// leastDelivery is how long a program has to read its input even if the call doesn't wait. A person who
// types does not look whether each key was taken, so a busy machine has longer then.
func (c *call) leastDelivery() time.Duration {
	if c.By == jobs.Person {
		return time.Second
	}
	return 100 * time.Millisecond
}

// send delivers input and waits until the job ends or asks again. The reply shows the output since
// the call, and never the input.
func (c *call) send(ctx context.Context, j *jobs.Job, in jobs.Input) (*report.Reply, error) {
	c.notices.Watch(j)
	from, answered := j.Log().Stat().End, j.Record().Question
	if !in.Types() { // a size or a signal is no answer
		answered = nil
	}
	begin, wait := time.Now(), c.waitFor(c.scope.GraceTime())
	deliver, cancel := context.WithTimeout(ctx, min(c.scope.GraceTime(), max(c.leastDelivery(), wait)))
	slow := time.AfterFunc(deliverTime, c.ticket.Pass)
	if j.Record().Kind == jobs.Shell {
		j.AwaitStart(deliver)
	}
	d, err := j.Send(deliver, in)
	if errors.Is(err, jobs.ErrEnded) {
		j.Await(deliver) // so that the refusal can say how it has ended
	}
	slow.Stop()
	cancel()
	if report.LinkOf(j.Live()).Input != "" { // the link was lost, and the reply says what is known of the input
		return c.reporter.Job(j, c.window(from)), nil
	}
	switch {
	case errors.Is(err, jobs.ErrEnded):
		record := j.Record()
		c.notices.Shows(record)
		if !record.Status.Final() {
			return nil, report.Mistakef("Job %s is ending (%s); nothing was sent.", j.ID(), report.StatusText(record))
		}
		return nil, report.Mistakef("Job %s has ended: %s. Nothing was sent.", j.ID(), report.StatusText(record))
	case errors.Is(err, jobs.ErrNotReading):
		return nil, report.Mistakef("Job %s does not wait for input (%s); nothing was sent or kept.", j.ID(), report.StatusText(j.Record()))
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, report.Mistakef("Job %s has not taken yet what another call sends; nothing of this one was sent. Call again.", j.ID())
	case err != nil:
		return nil, err
	}
	if d.Typing != nil { // it has taken some of the time
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, begin.Add(wait))
		defer stop()
	}
	c.await(ctx, j, c.scope.GraceTime())
	w := c.window(from)
	w.Answered, w.Changes = answered, true
	w.Line("Input", report.Delivered(d, in, j.Record().Status.Final()))
	return c.reporter.Job(j, w), nil
}
