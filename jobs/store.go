package jobs

// A Store keeps the records and logs of jobs.
type Store interface {
	// NewLog returns the log of a new job.
	NewLog(id string) *Log
	// Save keeps the record of a job: when it starts, when it has ended, and when
	// its receipt was amended. For one job it is called one at a time, in order.
	Save(Info) error
	// Remove forgets a job, whose log was closed.
	Remove(id string) error
	// Usage tells what is on disk.
	Usage() Usage
}

// A Usage says what a store has on disk.
type Usage struct {
	Dir     string // where; empty before anything was
	Bytes   int64  // what it takes there
	Limit   int64  // what it may take; 0: as much as there is
	Logs    int    // whose output is there
	Failure error  // why the last write failed, as on a full disk; nil if it did not
}

// A LogConfig says where logs are kept, and how much of them.
type LogConfig struct {
	// Cap is the number of bytes kept of one log. 0 is 1 GiB, or 1 MiB where
	// nothing can be spilled.
	Cap int64
	// Disk is the number of bytes that all logs may take on disk; 0 is no limit.
	// Beyond it, logs of ended jobs give way, that of the first to end first; a
	// running job loses nothing to another. Stores do not know of one another.
	Disk int64
	// Dir returns the directory for what is spilled; it is called each time one is
	// needed, and the directory made if it is not there. Nil: nothing is spilled.
	Dir func() (string, error)
}

const (
	segmentSize = 256 << 10 // what a log keeps in memory before it spills
	minSegments = 16        // a small cap makes for small segments, not for few
	holdOnError = 3         // sealed segments kept in memory where the disk fails: the first and the newest
)

// NewMemory returns a store that keeps jobs for as long as the process lives:
// records in memory, logs there and in a file that no longer has a name, so that
// nothing is left of them however the process ends.
func NewMemory(c LogConfig) Store {
	m := &memory{cap: c.Cap}
	if m.cap <= 0 {
		m.cap = 1 << 30
		if c.Dir == nil {
			m.cap = 1 << 20
		}
	}
	if c.Dir != nil && m.cap > segmentSize {
		m.spill = &spill{
			open:  func() (spillFile, error) { return openSpill(c.Dir) },
			size:  m.segment(),
			limit: c.Disk,
		}
	}
	return m
}

type memory struct {
	cap   int64  // bytes kept of a log
	spill *spill // nil: nothing is spilled
}

func (*memory) Save(Info) error     { return nil }
func (*memory) Remove(string) error { return nil }

// segment returns the size of the segments of all logs.
func (m *memory) segment() int64 { return min(segmentSize, max(1, m.cap/minSegments)) }

func (m *memory) NewLog(string) *Log {
	return newLog(int(m.segment()), m.cap/m.segment(), holdOnError, m.spill)
}

func (m *memory) Usage() Usage {
	if m.spill == nil {
		return Usage{}
	}
	return m.spill.usage()
}

// newLog returns a log of that many segments of size bytes, of which it keeps
// hold in memory; all of them if there is no spill.
func newLog(size int, segments int64, hold int, sp *spill) *Log {
	head := max(1, segments/2)
	ring := max(1, segments-head)
	if sp == nil {
		hold = int(head + ring)
	}
	return &Log{size: size, final: -1, sealed: archive{size: size, head: head, ring: ring, hold: hold, spill: sp, inFlight: none}}
}
