package jobs

// A Store keeps the records and logs of jobs.
type Store interface {
	NewLog(id string) *Log
	Save(Info) error
	Remove(id string) error
}

// A LogConfig says where logs are kept and how much of them.
type LogConfig struct {
	Cap int64                  // bytes kept of one log; 0 is 1 GiB
	Dir func() (string, error) // where to spill, called at the first need; nil: memory only
}

// NewMemory returns a store that keeps jobs as long as the process lives.
func NewMemory(c LogConfig) Store { panic("skeleton") }
