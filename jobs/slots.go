package jobs

import (
	"context"
	"slices"
	"sync"
)

// slots bounds how many jobs of a registry run at once. A job has a slot from [Port.Admit], or else
// from [Port.Begin], to its end. The lock is taken last: no method takes another one.
type slots struct {
	max int

	mu      sync.Mutex
	taken   int
	away    int    // jobs that run at other places: they need no slot
	waiting []*Job // they are sorted by their starts
}

// A slot is the part of a job that slots guard.
type slot struct {
	has   bool
	away  bool          // the job runs at another place
	comes chan struct{} // closed when the job gets its slot; nil unless it has waited for one
}

// await waits until j has a slot. Its error is the cause of ctx.
func (s *slots) await(ctx context.Context, j *Job) error {
	comes := s.ask(j)
	if comes == nil {
		return nil
	}
	select {
	case <-comes:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		// If j has got its slot at the same moment, that is free again when j ends.
		s.waiting = slices.DeleteFunc(s.waiting, func(w *Job) bool { return w == j })
		return context.Cause(ctx)
	}
}

// ask gives j a slot, or else a place among the jobs that wait for one, in the order of their starts.
// It returns nil if j has a slot.
func (s *slots) ask(j *Job) (comes <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.slot.has {
		return nil
	}
	if s.taken < s.max { // then no job waits
		j.slot.has = true
		s.taken++
		return nil
	}
	j.slot.comes = make(chan struct{})
	i, _ := slices.BinarySearchFunc(s.waiting, j.number, func(w *Job, number int64) int { return int(w.number - number) })
	s.waiting = slices.Insert(s.waiting, i, j)
	return j.slot.comes
}

// take gives j a slot even if none is free. A job at another place needs none, and is only counted.
func (s *slots) take(j *Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.away() && !j.slot.away:
		j.slot.away = true
		s.away++
	case !j.away() && !j.slot.has:
		j.slot.has = true
		s.taken++
	}
}

// release takes the slot of j back, if it has one, and gives it to the first job that waits.
func (s *slots) release(j *Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.slot.has {
		j.slot.has = false
		s.taken--
	}
	if j.slot.away {
		j.slot.away = false
		s.away--
	}
	for s.taken < s.max && len(s.waiting) > 0 {
		first := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		first.slot.has = true
		s.taken++
		close(first.slot.comes)
	}
}

// running returns how many jobs have a slot.
func (s *slots) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// unqueued returns how many jobs have a slot or need none.
func (s *slots) unqueued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken + s.away
}

// full reports whether no slot is free.
func (s *slots) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= s.max
}

// Running returns the jobs that run at the place of the job with that id, if that is queued and no more may run
// there: those that wait for input first, then the oldest. It returns nil if the job need not wait for them.
func (r *Registry) Running(id string) []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[id]
	if j == nil || j.Record().Status != Queued || !j.away() && !r.shared.slots.full() {
		return nil
	}
	running := r.running(j.record.Place)
	if j.away() && len(running) < r.shared.slots.max { // the engine there has the same limit
		return nil
	}
	return running
}

// running returns the jobs that run at a place, or here: those that wait for input first, then the oldest. The
// caller holds r.mu.
func (r *Registry) running(place string) []Record {
	var asking, others []Record
	for _, j := range r.order {
		switch record := j.Record(); {
		case j.record.Place != place:
		case record.Asks():
			asking = append(asking, record)
		case record.Status == Running || record.Status == WaitingInput:
			others = append(others, record)
		}
	}
	return append(asking, others...)
}
