package jobs

import "sync"

// A notice announces changes to the callers that wait for the next one. The zero value is ready to
// use. Its lock is taken last: no method takes another one.
type notice struct {
	mu   sync.Mutex
	next chan struct{} // closed and dropped at a change; made when a caller waits
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

func (n *notice) announce() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}

// Changed returns a channel that is closed at the next change of what [Registry.List] returns, except
// the output: a job is started or forgotten, or [Job.Changed] announces something. Take it before the
// list that it follows.
func (r *Registry) Changed() <-chan struct{} { return r.shared.list.changed() }
