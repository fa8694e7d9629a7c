package mcpserver

import (
	"cmp"
	"slices"
	"sync"

	"asyncrepl/jobs"
)

// A client that was told "running" is told of the rest by the next reply about
// another job: "Also: job … completed". Each event is told once to a connection,
// be it so or by a reply about the job itself:
//
//   - A connection follows the jobs that its calls were about, until their end
//     has been told.
//   - What a call in flight is about is left to its reply.
//   - A reply that nobody will read has told nothing: what it said is taken back.

// news is what one connection has been told of jobs.
type news struct {
	mu       sync.Mutex
	followed map[string]*following // by the id of the job
}

// A following is one job that a connection follows.
type following struct {
	job     *jobs.Job
	changed <-chan struct{} // closed when it is to be looked at; nil: it is
	calls   int             // in flight that are about it

	asked, askedBy int // the last wait for input that was told, by so many replies
	endedBy        int // replies that told the end
}

// A telling is what one call tells. It is not for several goroutines.
type telling struct {
	news  *news
	about []*following
	asked []*following // of which the call told the last wait
	ended []*following // of which the call told the end
}

// follow says that the call's reply will be about j.
func (t *telling) follow(j *jobs.Job) {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	f := t.news.followed[j.ID()]
	if f == nil {
		f = &following{job: j}
		if t.news.followed == nil {
			t.news.followed = make(map[string]*following)
		}
		t.news.followed[j.ID()] = f
	}
	f.calls++
	t.about = append(t.about, f)
}

// shows says that the reply shows those jobs as they are here.
func (t *telling) shows(infos ...jobs.Info) {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	for _, info := range infos {
		if f := t.news.followed[info.ID]; f != nil {
			t.note(f, info)
		}
	}
}

// note notes what is told of f. The caller holds the lock of the news.
func (t *telling) note(f *following, info jobs.Info) {
	if info.Status.Final() {
		f.endedBy++
		t.ended = append(t.ended, f)
	}
	switch {
	case info.Asked < f.asked, info.Asked == 0:
		return
	case info.Asked > f.asked:
		f.asked, f.askedBy = info.Asked, 0
	}
	f.askedBy++
	t.asked = append(t.asked, f)
}

// also takes what there is to tell of other jobs: those that wait first.
func (t *telling) also() []jobs.Info {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	var list []jobs.Info
	for _, f := range t.news.followed {
		if f.calls > 0 || f.endedBy > 0 || !f.toBeSeen() {
			continue
		}
		info := f.job.Info()
		if info.Status.Final() || info.Asks() && info.Asked > f.asked {
			t.note(f, info)
			list = append(list, info)
		}
	}
	slices.SortFunc(list, func(a, b jobs.Info) int {
		waits := func(i jobs.Info) int { return map[bool]int{true: 0, false: 1}[i.Status == jobs.WaitingInput] }
		return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// toBeSeen reports whether the job has changed since it was last asked so.
func (f *following) toBeSeen() bool {
	select {
	case <-f.changed:
	case <-f.job.Done(): // which is told of a little sooner
	default:
		if f.changed != nil {
			return false
		}
	}
	f.changed = f.job.Changed()
	return true
}

// done ends the telling of a call. If its reply is not read, it has told nothing.
func (t *telling) done(read bool) {
	t.news.mu.Lock()
	defer t.news.mu.Unlock()
	if !read {
		for _, f := range t.ended {
			f.endedBy--
			f.changed = nil
			t.news.followed[f.job.ID()] = f
		}
		for _, f := range t.asked {
			if f.askedBy--; f.askedBy == 0 {
				f.asked--
				f.changed = nil
			}
		}
	}
	for _, f := range t.about {
		f.calls--
	}
	for _, f := range append(t.about, t.ended...) {
		if f.calls == 0 && f.endedBy > 0 {
			delete(t.news.followed, f.job.ID())
		}
	}
}
