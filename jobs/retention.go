package jobs

import (
	"math"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// retention decides which ended jobs are forgotten: the oldest ones of a tenant that has too many,
// and all that are too old. Jobs that left processes running are kept and not counted. The registry
// guards it with its lock.
type retention struct {
	keep   int
	maxAge time.Duration

	tenants map[string]*history
	timer   *time.Timer // runs until the oldest job is too old
	closed  bool

	forgotten map[ulid.ULID]string // the tenants of the jobs that were forgotten last
	trail     []ulid.ULID          // the keys of forgotten, oldest first
}

// A history is the ended jobs of a tenant.
type history struct {
	ended []*Job // in the order of their ends
	left  []*Job // jobs that left processes running
}

// maxForgotten is the number of forgotten ids that are remembered, so that the error for such an id
// can say that the job was forgotten.
const maxForgotten = 10_000

// add adds a job that has ended. The caller holds the registry's lock.
func (k *retention) add(j *Job) {
	if k.tenants == nil {
		k.tenants = make(map[string]*history)
	}
	h := k.tenants[j.info.Tenant]
	if h == nil {
		h = new(history)
		k.tenants[j.info.Tenant] = h
	}
	h.left = append(h.left, j) // until the next prune
}

// prune forgets the jobs that are due.
func (r *Registry) prune() {
	r.mu.Lock()
	gone := r.retention.takeDue(time.Now())
	for _, j := range gone {
		r.forgottenOutput += j.log.Stat().End
		delete(r.jobs, j.ID())
		i := slices.Index(r.order, j) // usually near the beginning: the few before it move, not the many after it
		copy(r.order[1:], r.order[:i])
		r.order[0] = nil
		r.order = r.order[1:]
	}
	r.retention.schedule(time.Now(), r.prune)
	r.mu.Unlock()
	for _, j := range gone { // without the lock: giving back a gigabyte takes long
		j.log.Discard()
		if err := r.shared.store.Remove(j.ID()); err != nil {
			r.shared.log.Warn("removing job", "job", j.ID(), "err", err)
		}
	}
}

// takeDue removes and returns the jobs that are due, and remembers their ids.
func (k *retention) takeDue(now time.Time) (gone []*Job) {
	if k.closed {
		return nil
	}
	for tenant, h := range k.tenants {
		h.sort()
		n := max(0, len(h.ended)-k.keep)
		// Ended never changes once a job is in the list.
		for n < len(h.ended) && now.Sub(h.ended[n].info.Ended) >= k.maxAge {
			n++
		}
		for _, j := range h.ended[:n] {
			k.remember(j)
		}
		gone = append(gone, h.ended[:n]...)
		clear(h.ended[:n])
		h.ended = h.ended[n:]
		if len(h.ended)+len(h.left) == 0 {
			delete(k.tenants, tenant)
		}
	}
	return gone
}

// sort moves the jobs that have no processes left from left to their place in ended.
func (h *history) sort() {
	h.left = slices.DeleteFunc(h.left, func(j *Job) bool {
		if j.needsCleanup() {
			return false
		}
		i, _ := slices.BinarySearchFunc(h.ended, j.info.Ended, func(o *Job, at time.Time) int { return o.info.Ended.Compare(at) })
		for i < len(h.ended) && h.ended[i].info.Ended.Equal(j.info.Ended) {
			i++ // jobs of one moment stay in the order of their ends
		}
		h.ended = slices.Insert(h.ended, i, j)
		return true
	})
}

// schedule makes the timer call prune when the next job gets too old.
func (k *retention) schedule(now time.Time, prune func()) {
	if k.closed {
		return
	}
	next := time.Duration(math.MaxInt64)
	for _, h := range k.tenants {
		for _, j := range slices.Concat(h.ended[:min(1, len(h.ended))], h.left) {
			// A job that is too old is kept as long as its processes run, and is checked again with
			// the next job.
			if d := k.maxAge - now.Sub(j.info.Ended); d > 0 {
				next = min(next, d)
			}
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
		k.forgotten = make(map[ulid.ULID]string)
	}
	k.forgotten[id] = j.info.Tenant
	k.trail = append(k.trail, id)
	if len(k.trail) > maxForgotten {
		delete(k.forgotten, k.trail[0])
		k.trail = k.trail[1:]
	}
}

// knew reports whether the tenant had such a job, which was forgotten.
func (k *retention) knew(tenant, id string) bool {
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return false
	}
	t, ok := k.forgotten[u]
	return ok && t == tenant
}

// close ends pruning, so that readers still find every job during shutdown.
func (k *retention) close() {
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
}
