package jobs

import (
	"os"
)

// A Store keeps the records and logs of jobs.
type Store interface {
	// NewLog returns the log of a new job.
	NewLog(id string) *Log
	// Save keeps the record of a job: when it starts, when it has ended, and when
	// its receipt was amended. For one job it is called one at a time, in order.
	Save(Info) error
	// Remove forgets a job, whose log was closed.
	Remove(id string) error
}

// A LogConfig says where logs are kept, and how much of them.
type LogConfig struct {
	// Cap is the number of bytes kept of one log. 0 is 1 GiB, or 1 MiB where
	// nothing can be spilled.
	Cap int64
	// Dir returns the directory for spill files; it is called each time one is
	// needed, and the directory made if it is not there. Nil: nothing is spilled.
	Dir func() (string, error)
}

const (
	segmentSize = 256 << 10 // what a log keeps in memory before it spills
	minSegments = 16        // a small cap makes for small segments, not for few
	holdOnError = 3         // sealed segments kept in memory where the disk fails: the first and the newest
)

// NewMemory returns a store that keeps jobs for as long as the process lives:
// records in memory, logs there and in spill files that no longer have a name,
// so that nothing is left of them however the process ends.
func NewMemory(c LogConfig) Store { return memory{c} }

type memory struct{ LogConfig }

func (memory) Save(Info) error     { return nil }
func (memory) Remove(string) error { return nil }

func (m memory) NewLog(string) *Log {
	limit, open := m.Cap, m.spill
	if limit <= 0 {
		limit = 1 << 30
		if m.Dir == nil {
			limit = 1 << 20
		}
	}
	if m.Dir == nil || limit <= segmentSize {
		open = nil
	}
	size := min(segmentSize, max(1, limit/minSegments))
	return newLog(int(size), limit/size, holdOnError, open)
}

// newLog returns a log of that many segments of size bytes, of which it keeps
// hold in memory; all of them if it can't open a file.
func newLog(size int, segments int64, hold int, open func() (spill, error)) *Log {
	head := max(1, segments/2)
	ring := max(1, segments-head)
	if open == nil {
		hold = int(head + ring)
	}
	return &Log{size: size, final: -1, sealed: archive{size: size, head: head, ring: ring, hold: hold, open: open}}
}

// spill opens a file that has lost its name already.
func (m memory) spill() (spill, error) {
	dir, err := m.Dir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "output-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
