package waiting

import "asyncrepl/internal/kernel/procfs"

// A readerClock detects that the thread which was last seen to read has run.
type readerClock struct {
	pid, tid int
	clock    *procfs.ThreadClock // nil before the first call of ran
}

// ran reports whether the thread has run since the last call. It returns true if that is not known.
func (c *readerClock) ran() bool {
	if c.clock != nil {
		ran, _ := c.clock.Ran() // true after an error
		return ran
	}
	if c.pid != 0 {
		c.clock, _ = procfs.NewThreadClock(c.pid, c.tid) // an error: the next call tries again
	}
	return true
}

// follow makes c follow the thread that ev names.
func (c *readerClock) follow(ev Evidence) {
	if c.pid != ev.pid || c.tid != ev.tid {
		*c = readerClock{pid: ev.pid, tid: ev.tid}
	}
}
