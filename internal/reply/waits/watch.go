package waits

import (
	"context"
	"time"

	"asyncrepl/jobs"
)

const (
	// settle is how long a job must print nothing before a match in a line that has not ended
	// counts, and settleMax how long such a match waits if the job doesn't stop printing.
	settle    = 50 * time.Millisecond
	settleMax = 500 * time.Millisecond
)

// A watch waits for one job.
type watch struct {
	job        *jobs.Job
	conditions *Conditions
	started    time.Time // when the wait began
	follower   *follower // nil if the output is not searched
	scanned    time.Time // the end of the last scan
	open       *match    // the match in a line that has not ended; nil if there is no such match
	opened     time.Time // the time at which open was first seen
}

func newWatch(j *jobs.Job, c *Conditions, started time.Time) *watch {
	w := &watch{job: j, conditions: c, started: started}
	if c.Pattern != nil || c.Stop != nil {
		w.follower = newFollower(j.Log(), c)
	}
	return w
}

// run waits until the job meets a condition, or waiting is done. searching bounds the search of the
// output.
func (w *watch) run(searching, waiting context.Context) Outcome {
	waiting, cancel := context.WithCancel(waiting)
	settled := make(chan struct{})
	go w.awaitJob(waiting, settled) // owned by this call, which waits for it; ends with waiting
	defer func() { cancel(); <-settled }()
	for {
		changed := w.job.Changed()
		record := w.job.Record()
		over := isClosed(settled) && waiting.Err() == nil
		final := isClosed(w.job.Done()) // checked before the scan, so that the scan sees all output
		over = over || final
		m := w.scan(searching, over || waiting.Err() != nil)
		due, silent := w.silence(record)
		switch {
		case m != nil && m.stop:
			return w.outcome(stopped, m)
		case m != nil:
			return w.outcome(matched, m)
		case final:
			return w.outcome(ended, nil)
		case over:
			return w.outcome(asks, nil)
		case silent:
			return w.outcome(quiet, nil)
		case waiting.Err() != nil:
			return w.outcome(nothing, nil)
		}
		if w.open != nil {
			due = earlier(due, min(settle-time.Since(record.Output.Last), settleMax-time.Since(w.opened)))
		}
		w.sleep(waiting, changed, settled, due)
	}
}

// awaitJob closes settled when the job has ended or asks for input, when a program that has begun
// to take input since the start of the wait probably asks, or when ctx is done.
func (w *watch) awaitJob(ctx context.Context, settled chan<- struct{}) {
	defer close(settled)
	_ = w.job.AwaitReader(ctx, jobs.ReaderTime) // an error: ctx is done
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *watch) outcome(e event, m *match) Outcome {
	o := Outcome{event: e, match: m, next: -1}
	if w.follower != nil {
		o.dropped = w.follower.scanner.Dropped()
		if o.next = w.follower.scanner.Passed(); m != nil {
			o.next = m.next
		}
	}
	return o
}

// scan returns the first match in the output. One in a line that has not ended counts when it has
// settled, or at once if this is the last scan.
func (w *watch) scan(ctx context.Context, last bool) *match {
	if w.follower == nil {
		return nil
	}
	m := w.follower.scan(ctx)
	w.scanned = time.Now()
	if w.open == nil {
		w.opened = w.scanned
	}
	w.open = nil
	if m != nil && m.open && !last && time.Since(w.job.Log().Stat().Last) < settle && w.scanned.Sub(w.opened) < settleMax {
		w.open = m
		return nil
	}
	return m
}

// silence returns how much longer the job must print nothing to be quiet, and whether it is. What
// it printed before the wait, or before it was started, does not count.
func (w *watch) silence(record jobs.Record) (due time.Duration, silent bool) {
	if w.conditions.Quiet == 0 || record.Started.IsZero() {
		return -1, false
	}
	since := w.started
	for _, t := range []time.Time{record.Started, record.Output.Last} {
		if t.After(since) {
			since = t
		}
	}
	due = w.conditions.Quiet - time.Since(since)
	return due, due <= 0
}

// earlier returns the shorter of two delays. A negative due means that there is only other, and a
// negative other counts as 0.
func earlier(due, other time.Duration) time.Duration {
	other = max(other, 0)
	if due < 0 {
		return other
	}
	return min(due, other)
}

// sleep returns when the state of the job has changed or is settled, when it has printed something
// since the last scan, after due unless that is negative, or when ctx is done.
func (w *watch) sleep(ctx context.Context, changed, settled <-chan struct{}, due time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var after <-chan time.Time
	if due >= 0 {
		after = time.After(due)
	}
	var printed chan struct{}
	if w.follower != nil {
		printed = make(chan struct{})
		go w.awaitOutput(ctx, printed) // owned by this call, which waits for it; ends with ctx
		defer func() { cancel(); <-printed }()
	}
	select {
	case <-changed:
	case <-settled:
	case <-printed:
	case <-after:
	case <-ctx.Done():
	}
}

// awaitOutput closes printed when the job has printed something since the last scan, and the
// follower has rested.
func (w *watch) awaitOutput(ctx context.Context, printed chan<- struct{}) {
	defer close(printed)
	select {
	case <-time.After(time.Until(w.scanned.Add(w.follower.rest))):
	case <-ctx.Done():
		return
	}
	_ = w.job.Log().Wait(ctx, w.follower.scanner.Cursor()) // an error: ctx is done
}
