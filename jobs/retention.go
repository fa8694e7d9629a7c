package jobs

import (
	"math"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// retention decides which ended jobs are forgotten: the oldest if there are too many, and all that
// are too old. Jobs that left processes running are kept and not counted. The registry guards it
// with its lock.
type retention struct {
	keep   int
	maxAge time.Duration

	ended []*Job // ended jobs, in the order of their ends
	left  []*Job // ended jobs that left processes, and jobs ended since the last prune

	timer  *time.Timer // runs until the oldest job is too old
	closed bool

	forgotten map[ulid.ULID]bool // the jobs that were forgotten last
	trail     []ulid.ULID        // the keys of forgotten, oldest first
	count     int64              // the number of jobs that were ever forgotten
}

// maxForgotten is the number of forgotten ids that are remembered, so that the error for such an id
// can say that the job was forgotten.
const maxForgotten = 10_000

// add adds a job that has ended. The caller holds the registry's lock.
func (k *retention) add(j *Job) {
	k.left = append(k.left, j) // the next prune sorts it
}

// prune forgets the jobs that are due.
func (r *Registry) prune() {
	r.mu.Lock()
	gone := r.retention.takeDue(time.Now())
	for _, j := range gone {
		r.forgottenOutput += j.log.Stat().End
		delete(r.jobs, j.ID())
		// It is usually near the beginning: the few before it move, not the many after it.
		i := slices.Index(r.order, j)
		copy(r.order[1:], r.order[:i])
		r.order[0] = nil
		r.order = r.order[1:]
	}
	r.retention.schedule(time.Now(), r.prune)
	r.mu.Unlock()
	if len(gone) > 0 {
		r.shared.list.announce(nil)
	}
	for _, j := range gone { // the lock is free: returning a gigabyte to the disk takes long
		j.log.Discard()
		if err := r.shared.store.Forget(j.ID()); err != nil {
			r.shared.log.Warn("forgetting job", "job", j.ID(), "err", err)
		}
	}
}

// takeDue removes and returns the jobs that are due, and remembers their ids.
func (k *retention) takeDue(now time.Time) (gone []*Job) {
	if k.closed {
		return nil
	}
	k.sort()
	n := max(0, len(k.ended)-k.keep)
	// Ended never changes once a job is in the list.
	for n < len(k.ended) && now.Sub(k.ended[n].record.Ended) >= k.maxAge {
		n++
	}
	for _, j := range k.ended[:n] {
		k.remember(j)
	}
	gone = slices.Clone(k.ended[:n])
	clear(k.ended[:n])
	k.ended = k.ended[n:]
	return gone
}

// sort moves the jobs that have no processes left from left to their place in ended.
func (k *retention) sort() {
	k.left = slices.DeleteFunc(k.left, func(j *Job) bool {
		if j.needsCleanup() {
			return false
		}
		i, _ := slices.BinarySearchFunc(k.ended, j.record.Ended, func(o *Job, at time.Time) int { return o.record.Ended.Compare(at) })
		for i < len(k.ended) && k.ended[i].record.Ended.Equal(j.record.Ended) {
			i++ // jobs of one moment stay in the order of their ends
		}
		k.ended = slices.Insert(k.ended, i, j)
		return true
	})
}

// schedule makes the timer call prune when the next job gets too old.
func (k *retention) schedule(now time.Time, prune func()) {
	if k.closed {
		return
	}
	next := time.Duration(math.MaxInt64)
	for _, j := range slices.Concat(k.ended[:min(1, len(k.ended))], k.left) {
		// A job that is too old is kept as long as its processes run, and is checked again with the
		// next job.
		if d := k.maxAge - now.Sub(j.record.Ended); d > 0 {
			next = min(next, d)
		}
	}
	switch {
	case next == math.MaxInt64:
	case k.timer == nil:
		k.timer = time.AfterFunc(next, prune)
	default:
		k.timer.Reset(next)
	}
}

// remember records that a job was forgotten.
func (k *retention) remember(j *Job) {
	id := ulid.MustParse(j.ID())
	if k.forgotten == nil {
		k.forgotten = make(map[ulid.ULID]bool)
	}
	k.count++
	k.forgotten[id] = true
	k.trail = append(k.trail, id)
	if len(k.trail) > maxForgotten {
		delete(k.forgotten, k.trail[0])
		k.trail = k.trail[1:]
	}
}

// knew reports whether there was such a job, which was forgotten.
func (k *retention) knew(id string) bool {
	u, err := ulid.ParseStrict(id)
	return err == nil && k.forgotten[u]
}

// close ends pruning, so that readers still find every job during shutdown.
func (k *retention) close() {
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
}
