package jobs

import (
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// retention says which ended jobs go: those beyond a number, and those beyond an
// age. Jobs that may still have to end what they left running stay. The registry
// guards it with its lock.
type retention struct {
	keep   int
	maxAge time.Duration

	ended  []*Job      // as they ended
	timer  *time.Timer // runs until the oldest of them is too old
	closed bool

	forgotten map[ulid.ULID]string // the tenants of the jobs that went last
	trail     []ulid.ULID          // their ids, as they went
}

// remembered is how many forgotten ids are known, so that a client who comes
// back for one is told what became of it.
const remembered = 10_000

// prune forgets the jobs whose time has come.
func (r *Registry) prune() {
	r.mu.Lock()
	gone := r.retention.takeDue(time.Now())
	for _, j := range gone {
		delete(r.jobs, j.ID())
		r.order = slices.DeleteFunc(r.order, func(o *Job) bool { return o == j })
	}
	r.retention.schedule(time.Now(), r.prune)
	r.mu.Unlock()
	for _, j := range gone { // without the lock: giving back a gigabyte takes its time
		j.log.Close()
		if err := r.keep.store.Remove(j.ID()); err != nil {
			r.keep.log.Warn("removing job", "job", j.ID(), "err", err)
		}
	}
}

// takeDue takes the jobs out whose time has come, and remembers their ids.
func (k *retention) takeDue(now time.Time) []*Job {
	// Ended does not change any more once a job is in the list.
	old := func(j *Job) bool { return now.Sub(j.info.Ended) >= k.maxAge }
	if k.closed || len(k.ended) <= k.keep && (len(k.ended) == 0 || !old(k.ended[0])) {
		return nil
	}
	over := -k.keep
	for _, j := range k.ended {
		if !j.remains() {
			over++
		}
	}
	var gone []*Job
	k.ended = slices.DeleteFunc(k.ended, func(j *Job) bool {
		if j.remains() || over <= 0 && !old(j) {
			return false
		}
		over--
		gone = append(gone, j)
		k.remember(j)
		return true
	})
	return gone
}

// schedule makes the timer call prune when the next job gets too old.
func (k *retention) schedule(now time.Time, prune func()) {
	if k.closed {
		return
	}
	for _, j := range k.ended {
		left := k.maxAge - now.Sub(j.info.Ended)
		if left <= 0 {
			continue // it stays for what it left running, and is looked at again with the next one
		}
		if k.timer == nil {
			k.timer = time.AfterFunc(left, prune)
		} else {
			k.timer.Reset(left)
		}
		return
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
