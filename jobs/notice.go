package jobs

import "sync"

// A notice announces changes to the callers that wait for the next one, and numbers them. The zero value
// is ready to use. Its lock is taken last: no method takes another one.
type notice struct {
	mu    sync.Mutex
	count int64         // changes so far
	next  chan struct{} // closed and dropped at a change; made when a caller waits
}

// changed returns a channel that is closed at the next change.
func (n *notice) changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// announce announces a change of j, or of the list if j is nil.
func (n *notice) announce(j *Job) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	if j != nil {
		j.announced.Store(n.count) // before the callers wake: they look for it
	}
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// Changed returns a channel that is closed at the next change of what [Registry.List] returns, except
// the output: a job is started or forgotten, or [Job.Changed] announces something. Take it before the
// list that it follows.
func (r *Registry) Changed() <-chan struct{} { return r.shared.list.changed() }

// A Mark is a moment in the changes of a registry. The zero value is its beginning.
type Mark struct{ changes, forgotten int64 }

// Now returns the present moment.
func (r *Registry) Now() Mark {
	r.shared.list.mu.Lock()
	changes := r.shared.list.count
	r.shared.list.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return Mark{changes, r.retention.count}
}

// ChangedSince returns the jobs of this registry that have changed since a moment, in the order of their
// starts, the ids of those that were forgotten since, 10,000 at most, and the moment up to which that
// holds. It takes no lock of a job, so that many callers can follow many jobs.
func (r *Registry) ChangedSince(m Mark) (changed []*Job, forgotten []string, now Mark) {
	now = r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range r.order {
		if j.announced.Load() > m.changes {
			changed = append(changed, j)
		}
	}
	trail := r.retention.trail
	for _, id := range trail[max(0, len(trail)-int(r.retention.count-m.forgotten)):] {
		forgotten = append(forgotten, id.String())
	}
	now.forgotten = r.retention.count
	return changed, forgotten, now
}
