package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"asyncrepl/internal/text/screen"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// If a reply said that a job is running, a later reply about another job announces that it has
// ended or waits for input: "Also: job … completed". If a call about a job was cancelled, the next
// reply announces that the job still runs, because some clients tell their model that it does not
// (Claude Code 2.1.330 says after Esc that the tool use was rejected).
// Each event is announced to a connection at least once, by such a line or by a reply about the job
// itself, and so is the death of an idle Python by "Lost:". If an answer with an announcement is
// dropped, it is announced again:
//
//   - A connection watches the jobs that its calls were about, until their end is delivered.
//   - It continues to watch the newest Python jobs, whose threads and tasks can write late output.
//     Late output is announced once, and again only after a reply has shown the job.
//   - A job that only refused calls were about is not watched.
//   - While an answer that is about a job, or announces an event of it, is under way, no other
//     reply announces events of that job.
//   - An announcement is delivered when the answer with it is queued to the client. If the answer
//     is dropped, a later reply announces the event again.

// An event of a job is the n-th time that it waits for input, its end, or the n-th byte that it
// wrote after that.
type event int64

const endOfJob event = 1 << 32

// eventOf returns the last event of a job.
func eventOf(record jobs.Record) event {
	switch {
	case !record.Status.Final():
		return event(record.Asked)
	case record.Kind == jobs.Python:
		return endOfJob + event(record.Output.End-record.Output.Final)
	}
	return endOfJob
}

// lateMax is how many ended jobs a connection watches for late output.
const lateMax = 100

// Notices hold the events of jobs and the losses that one connection has announced. The zero value
// is ready to use.
type Notices struct {
	mu      sync.Mutex
	watched map[string]*watchedJob // the key is the job's ID
	late    []*watchedJob          // ended jobs watched for late output, the oldest first
	facts   map[string]bool        // losses of variables and answers of people that were announced
	earlier []string               // no reply of an earlier server has said it of its jobs
}

// Earlier adds what no reply of an earlier server has said of its jobs, as [CallNotices.Also] returned it. It
// is announced once.
func (n *Notices) Earlier(items []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.earlier = append(n.earlier, items...)
}

// A watchedJob is one job that a connection watches.
type watchedJob struct {
	job       *jobs.Job
	changed   <-chan struct{} // closed when the job has changed; nil if it must be inspected anyway
	answers   int             // the number of pending answers about the job or with an event of it
	shown     bool            // a reply was about the job or announced an event of it
	delivered event           // the last event that a queued answer announced; 0: none
	cancelled bool            // a call about the job was cancelled, which no answer has said
	late      bool            // late output was announced, and no reply has shown the job since

	screen *screen.Snapshot // the screen that a queued answer showed last; nil: none did
}

// CallNotices hold what the answer to one call announces. Only Settle and Cancel can run concurrently
// with other methods.
type CallNotices struct {
	all       *Notices
	claims    []claim
	facts     []string // the facts that the answer announces
	cancelled bool
	settled   bool // the answer is queued or dropped, and announces nothing more
}

// A claim keeps other answers from announcing the events of a job until this one is queued or
// dropped.
type claim struct {
	w         *watchedJob
	about     bool  // the call is about the job
	event     event // the event that the answer announces; 0 if it announces no event
	cancelled bool  // the answer announces that a call about the job was cancelled

	screen *screen.Snapshot // the screen that the answer shows, or nil
}

// Call returns the notices of a new call.
func (n *Notices) Call() *CallNotices { return &CallNotices{all: n} }

// Next returns the notices of the connection that follows, of another client: it watches the same jobs, and
// has shown nothing. Answers of this connection that are still under way change nothing there.
func (n *Notices) Next() *Notices {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := &Notices{watched: make(map[string]*watchedJob), facts: maps.Clone(n.facts), earlier: n.earlier}
	for id, w := range n.watched {
		next.watched[id] = &watchedJob{job: w.job, shown: w.shown, delivered: w.delivered, cancelled: w.cancelled}
	}
	for _, w := range n.late {
		next.late = append(next.late, next.watched[w.job.ID()])
	}
	return next
}

// Watch notes that the call's reply will be about j.
func (c *CallNotices) Watch(j *jobs.Job) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	w := c.all.watched[j.ID()]
	if w == nil {
		w = &watchedJob{job: j}
		if c.all.watched == nil {
			c.all.watched = make(map[string]*watchedJob)
		}
		c.all.watched[j.ID()] = w
	}
	if c.settled {
		w.cancelled = w.cancelled || c.cancelled
		return
	}
	c.claim(claim{w: w, about: true})
}

// Shows notes that the reply shows these jobs as they are here.
func (c *CallNotices) Shows(records ...jobs.Record) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	for _, record := range records {
		if w := c.all.watched[record.ID]; w != nil {
			w.late = false
			c.announce(w, eventOf(record))
		}
	}
}

// announce notes that the reply announces an event of w. The caller holds the lock.
func (c *CallNotices) announce(w *watchedJob, e event) {
	w.shown = true
	if c.settled || e <= w.delivered && !w.cancelled {
		return
	}
	c.claim(claim{w: w, event: e, cancelled: w.cancelled})
	w.cancelled = false
}

func (c *CallNotices) claim(a claim) {
	a.w.answers++
	c.claims = append(c.claims, a)
}

// screen notes that the reply shows the screen s of a job. It returns the screen that the client was shown
// last, or nil if that is not known: none was, or another answer about the job is under way.
func (c *CallNotices) screen(id string, s screen.Snapshot) (last *screen.Snapshot) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	w := c.all.watched[id]
	if w == nil || c.settled {
		return nil
	}
	own := 0
	for _, a := range c.claims {
		if a.w == w {
			own++
		}
	}
	if w.answers == own {
		last = w.screen
	}
	c.claim(claim{w: w, screen: &s})
	return last
}

// Once reports whether no answer has announced a fact, which is a loss of variables or the answer of
// a person. If so, it notes that this reply does.
func (c *CallNotices) Once(fact string) bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	return c.first(fact)
}

// first is Once for a caller that holds the lock.
func (c *CallNotices) first(fact string) bool {
	if c.settled || c.all.facts[fact] {
		return false
	}
	if c.all.facts == nil {
		c.all.facts = make(map[string]bool)
	}
	c.all.facts[fact] = true
	c.facts = append(c.facts, fact)
	return true
}

// Answered writes when a person last typed something for a job, unless an answer has said so. What
// was typed is not said.
func (c *CallNotices) Answered(r *Reply, record jobs.Record) {
	at := record.Answered
	if !at.IsZero() && c.Once(fmt.Sprintf("answered %s %d", record.ID, at.UnixNano())) {
		r.Line("Answered", "by a person, "+at.Local().Format(time.TimeOnly))
	}
}

// Also returns what there is to announce of other jobs, for [Reply.Also]. Jobs that wait for input
// come first.
func (c *CallNotices) Also() []string {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.settled {
		return nil
	}
	type news struct {
		record jobs.Record
		state  string
	}
	var list []news
	for _, w := range c.all.watched {
		known := w.delivered
		if w.answers > 0 || !w.hasChanged() && !w.cancelled {
			continue
		}
		record, state := w.job.Record(), ""
		e := eventOf(record)
		switch {
		case e <= known && e >= endOfJob, w.late:
			continue
		case known >= endOfJob:
			state = "wrote " + view.CountOf(int64(e-known), "byte") + " more"
		case e >= endOfJob:
			state = view.Line(StatusText(record), 60)
		case record.Asks() && e > known:
			state = "waits for input"
		case w.cancelled:
			state = stillText[record.Status] + "; its call was cancelled"
		default:
			continue
		}
		w.late = known >= endOfJob
		c.announce(w, e)
		list = append(list, news{record, state})
	}
	slices.SortFunc(list, func(a, b news) int {
		waits := func(n news) int { return map[bool]int{true: 0, false: 1}[n.record.Status == jobs.WaitingInput] }
		return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(a.record.ID, b.record.ID))
	})
	var items []string
	for _, item := range c.all.earlier {
		if c.first("earlier " + item) {
			items = append(items, item)
		}
	}
	for _, n := range list {
		items = append(items, fmt.Sprintf("job %s %s", n.record.ID, n.state))
	}
	return items
}

// stillText says of a job that it has not ended although its call was cancelled.
var stillText = map[jobs.Status]string{
	jobs.Queued: "is still queued", jobs.Running: "is still running", jobs.WaitingInput: "still waits for input",
}

// hasChanged reports whether the job has changed since the last call.
func (w *watchedJob) hasChanged() bool {
	ended := w.job.Done() // closed a little earlier than changed
	if w.delivered >= endOfJob {
		ended = nil
	}
	select {
	case <-w.changed:
	case <-ended:
	default:
		if w.changed != nil {
			return false
		}
	}
	w.changed = w.job.Changed()
	return true
}

// Settle ends the call: its answer has been queued, or dropped and nothing of it delivered. A
// second Settle does nothing.
func (c *CallNotices) Settle(queued bool) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if !c.settled {
		c.settle(queued)
	}
}

// Cancel ends the call: its client has cancelled it and gets no answer. Its jobs continue.
func (c *CallNotices) Cancel() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.settled {
		return
	}
	c.cancelled = true
	for _, a := range c.claims {
		a.w.cancelled = a.w.cancelled || a.about
	}
	c.settle(false)
}

// settle is Settle for a caller that holds the lock.
func (c *CallNotices) settle(queued bool) {
	c.settled = true
	for _, a := range c.claims {
		w := a.w
		w.answers--
		if queued {
			w.delivered = max(w.delivered, a.event)
			w.screen = cmp.Or(a.screen, w.screen)
		} else {
			w.cancelled = w.cancelled || a.cancelled
			w.late, w.changed = false, nil
		}
		if queued && !w.shown && !w.cancelled && w.answers == 0 {
			delete(c.all.watched, w.job.ID())
		}
		c.all.release(w)
	}
	if !queued {
		for _, fact := range c.facts {
			delete(c.all.facts, fact)
		}
	}
}

// release stops watching a job that has nothing more to announce. The caller holds the lock.
func (n *Notices) release(w *watchedJob) {
	if w.answers > 0 || w.delivered < endOfJob || n.watched[w.job.ID()] != w {
		return
	}
	if w.job.Record().Kind != jobs.Python {
		delete(n.watched, w.job.ID())
		return
	}
	if slices.Contains(n.late, w) {
		return
	}
	n.late = append(n.late, w)
	if len(n.late) > lateMax {
		delete(n.watched, n.late[0].job.ID())
		n.late = slices.Delete(n.late, 0, 1)
	}
}

// alsoMax bounds the Also line, in bytes. Jobs that don't fit are only counted.
const alsoMax = 220

// Also writes the line that announces other jobs, if there are any.
func (r *Reply) Also(items []string) {
	var s strings.Builder
	for i, item := range items {
		if i > 0 {
			if s.Len()+len(item) > alsoMax {
				fmt.Fprintf(&s, "; %d more: see list_jobs", len(items)-i)
				break
			}
			s.WriteString("; ")
		}
		s.WriteString(item)
	}
	if len(items) > 0 {
		r.Line("Also", s.String())
	}
}
