package jobs

// A Store keeps the records of jobs.
type Store interface {
	// Save keeps the record of a job: when it starts, when it has ended, and when its receipt was
	// amended. For one job it is called one at a time, in order.
	Save(Info) error
	// Remove forgets a job.
	Remove(id string) error
}

// inMemory is a store of no more than what the registry remembers.
type inMemory struct{}

func (inMemory) Save(Info) error     { return nil }
func (inMemory) Remove(string) error { return nil }
