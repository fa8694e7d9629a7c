package jobs

import (
	"math"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// retention says which ended jobs go: of each tenant those beyond a number, and
// all those beyond an age. Jobs that may still have to end what they left running
// stay, and do not count. The registry guards it with its lock.
type retention struct {
	keep   int
	maxAge time.Duration

	tenants map[string]*past
	timer   *time.Timer // runs until the oldest of them is too old
	closed  bool

	forgotten map[ulid.ULID]string // the tenants of the jobs that went last
	trail     []ulid.ULID          // their ids, as they went
}

// A past is the ended jobs of a tenant.
type past struct {
	ended []*Job // as they ended
	left  []*Job // those that left something running
}

// remembered is how many forgotten ids are known, so that a client who comes
// back for one is told what became of it.
const remembered = 10_000

// ended notes that a job has. The caller holds the registry's lock.
func (k *retention) ended(j *Job) {
	if k.tenants == nil {
		k.tenants = make(map[string]*past)
	}
	p := k.tenants[j.info.Tenant]
	if p == nil {
		p = new(past)
		k.tenants[j.info.Tenant] = p
	}
	p.left = append(p.left, j) // until prune has asked it
}

// prune forgets the jobs whose time has come.
func (r *Registry) prune() {
	r.mu.Lock()
	gone := r.retention.takeDue(time.Now())
	for _, j := range gone {
		delete(r.jobs, j.ID())
		i := slices.Index(r.order, j) // near the beginning, mostly: these few move, not the many behind
		copy(r.order[1:], r.order[:i])
		r.order[0] = nil
		r.order = r.order[1:]
	}
	r.retention.schedule(time.Now(), r.prune)
	r.mu.Unlock()
	for _, j := range gone { // without the lock: giving back a gigabyte takes its time
		j.log.Discard()
		if err := r.keep.store.Remove(j.ID()); err != nil {
			r.keep.log.Warn("removing job", "job", j.ID(), "err", err)
		}
	}
}

// takeDue takes the jobs out whose time has come, and remembers their ids.
func (k *retention) takeDue(now time.Time) (gone []*Job) {
	if k.closed {
		return nil
	}
	for tenant, p := range k.tenants {
		p.sort()
		n := max(0, len(p.ended)-k.keep)
		// Ended does not change any more once a job is in the list.
		for n < len(p.ended) && now.Sub(p.ended[n].info.Ended) >= k.maxAge {
			n++
		}
		for _, j := range p.ended[:n] {
			k.remember(j)
		}
		gone = append(gone, p.ended[:n]...)
		clear(p.ended[:n])
		p.ended = p.ended[n:]
		if len(p.ended)+len(p.left) == 0 {
			delete(k.tenants, tenant)
		}
	}
	return gone
}

// sort puts those of left where they belong of which nothing runs any more.
func (p *past) sort() {
	p.left = slices.DeleteFunc(p.left, func(j *Job) bool {
		if j.remains() {
			return false
		}
		i, _ := slices.BinarySearchFunc(p.ended, j.info.Ended, func(o *Job, at time.Time) int { return o.info.Ended.Compare(at) })
		for i < len(p.ended) && p.ended[i].info.Ended.Equal(j.info.Ended) {
			i++ // as they ended
		}
		p.ended = slices.Insert(p.ended, i, j)
		return true
	})
}

// schedule makes the timer call prune when the next job gets too old.
func (k *retention) schedule(now time.Time, prune func()) {
	if k.closed {
		return
	}
	next := time.Duration(math.MaxInt64)
	for _, p := range k.tenants {
		for _, j := range slices.Concat(p.ended[:min(1, len(p.ended))], p.left) {
			// One that is too old stays for what it left running, and is looked at
			// again with the next one.
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

// remember notes that the job of an id is gone.
func (k *retention) remember(j *Job) {
	id := ulid.MustParse(j.ID())
	if k.forgotten == nil {
		k.forgotten = make(map[ulid.ULID]string)
	}
	k.forgotten[id] = j.info.Tenant
	k.trail = append(k.trail, id)
	if len(k.trail) > remembered {
		delete(k.forgotten, k.trail[0])
		k.trail = k.trail[1:]
	}
}

// knew reports whether there was such a job of the tenant.
func (k *retention) knew(tenant, id string) bool {
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return false
	}
	t, ok := k.forgotten[u]
	return ok && t == tenant
}

// close ends pruning: who is still reading at shutdown finds what there was.
func (k *retention) close() {
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
}
