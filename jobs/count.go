package jobs

// A Count is how many jobs of a tenant there are.
type Count struct {
	By      map[Status]int
	Running int // jobs of all tenants that have not ended
	Max     int // how many these may be
	Lossy   int // jobs of which output was lost because a disk failed
}

// Count counts the jobs of a tenant that are remembered.
func (r *Registry) Count(tenant string) Count {
	c := Count{By: make(map[Status]int)}
	r.mu.Lock()
	c.Running, c.Max = r.running, r.max
	r.mu.Unlock()
	for _, info := range r.List(tenant, Filter{}) {
		c.By[info.Status]++
		if info.Output.Loss.Disk > 0 {
			c.Lossy++
		}
	}
	return c
}
