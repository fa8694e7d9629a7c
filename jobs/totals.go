package jobs

import "maps"

// Totals are figures about all jobs of a registry.
type Totals struct {
	Now    map[Status]int   // jobs that have not ended
	Ended  map[Status]int64 // jobs that have ended, including forgotten ones
	Output int64            // bytes that all jobs have written
}

// Totals returns the totals since the registry was made.
func (r *Registry) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Totals{Now: make(map[Status]int), Ended: maps.Clone(r.ended), Output: r.forgottenOutput}
	for _, j := range r.order {
		record := j.Record()
		t.Output += record.Output.End
		if !record.Status.Final() {
			t.Now[record.Status]++
		} else if !j.counted {
			t.Ended[record.Status]++
		}
	}
	return t
}
