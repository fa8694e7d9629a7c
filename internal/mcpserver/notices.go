package mcpserver

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"asyncrepl/jobs"
)

// If a reply said that a job is running, a later reply about another job announces how that job went
// on: "Also: job … completed". Each event is announced once to a connection, by such a line or by a
// reply about the job itself:
//
//   - A connection watches the jobs that its calls were about, until their end is delivered.
//   - The events of a job that a call in flight is about are left to the reply of that call.
//   - An announcement is delivered when the answer with it is queued to the client. If the answer is
//     dropped, a later reply announces the event again.

// An event of a job is the n-th time that it waits for input, or its end.
type event int

const ended event = math.MaxInt

// eventOf returns the last event of a job.
func eventOf(info jobs.Info) event {
	if info.Status.Final() {
		return ended
	}
	return event(info.Asked)
}

// notices are what one connection has announced of jobs.
type notices struct {
	mu      sync.Mutex
	watched map[string]*watchedJob // by the job's id
}

// A watchedJob is one job that a connection watches.
type watchedJob struct {
	job       *jobs.Job
	changed   <-chan struct{} // closed when the job has changed; nil if it must be inspected anyway
	calls     int             // in flight whose reply is about it
	delivered event           // the last that a queued answer announced; 0 is none
	claimed   event           // the last that an answer under way announces; 0 is none
	claimant  *callNotices    // whose answer that is
}

// callNotices are what the answer of one call announces. Only settle may run beside other methods.
type callNotices struct {
	all       *notices
	about     []*watchedJob
	announced []announcement
}

// An announcement is an event that an answer announces.
type announcement struct {
	w     *watchedJob
	event event
}

// watch notes that the call's reply will be about j.
func (t *callNotices) watch(j *jobs.Job) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	w := t.all.watched[j.ID()]
	if w == nil {
		w = &watchedJob{job: j}
		if t.all.watched == nil {
			t.all.watched = make(map[string]*watchedJob)
		}
		t.all.watched[j.ID()] = w
	}
	w.calls++
	t.about = append(t.about, w)
}

// shows notes that the reply shows these jobs as they are here.
func (t *callNotices) shows(infos ...jobs.Info) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	for _, info := range infos {
		if w := t.all.watched[info.ID]; w != nil {
			t.announce(w, eventOf(info))
		}
	}
}

// announce notes that the reply announces an event. The caller holds the lock.
func (t *callNotices) announce(w *watchedJob, e event) {
	if e == 0 {
		return
	}
	t.announced = append(t.announced, announcement{w, e})
	if e > w.delivered && e >= w.claimed {
		w.claimed, w.claimant = e, t
	}
}

// also returns the jobs with an event to announce, those that wait for input first.
func (t *callNotices) also() []jobs.Info {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	var list []jobs.Info
	for _, w := range t.all.watched {
		known := max(w.delivered, w.claimed)
		if w.calls > 0 || known == ended || !w.hasChanged() {
			continue
		}
		info := w.job.Info()
		if e := eventOf(info); e == ended || info.Asks() && e > known {
			t.announce(w, e)
			list = append(list, info)
		}
	}
	slices.SortFunc(list, func(a, b jobs.Info) int {
		waits := func(i jobs.Info) int { return map[bool]int{true: 0, false: 1}[i.Status == jobs.WaitingInput] }
		return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// hasChanged reports whether the job has changed since the last call.
func (w *watchedJob) hasChanged() bool {
	select {
	case <-w.changed:
	case <-w.job.Done(): // closed a little earlier
	default:
		if w.changed != nil {
			return false
		}
	}
	w.changed = w.job.Changed()
	return true
}

// settle ends the call: its answer has been queued, or dropped and nothing of it delivered.
func (t *callNotices) settle(queued bool) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	for _, a := range t.announced {
		if queued {
			a.w.delivered = max(a.w.delivered, a.event)
		}
		if a.w.claimant == t {
			a.w.claimed, a.w.claimant, a.w.changed = 0, nil, nil
		}
		t.all.release(a.w)
	}
	for _, w := range t.about {
		w.calls--
		t.all.release(w)
	}
}

// release stops watching a job of which nothing is left to announce. The caller holds the lock.
func (n *notices) release(w *watchedJob) {
	if w.calls == 0 && w.delivered == ended && n.watched[w.job.ID()] == w {
		delete(n.watched, w.job.ID())
	}
}
