package jobs

// A Store keeps the records of jobs. Their output is kept by an output.Store.
type Store interface {
	// Save keeps the record of a job: when it starts, when it has ended, and when its receipt was
	// amended. For one job it is called one call at a time, in order.
	Save(Record) error
	// Remove forgets a job.
	Remove(id string) error
}

// noStore is the store of a registry whose jobs need not outlive it.
type noStore struct{}

func (noStore) Save(Record) error   { return nil }
func (noStore) Remove(string) error { return nil }
