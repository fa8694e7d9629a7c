package waiting

import (
	"asyncrepl/internal/procfs"
)

// A readerClock notices that the thread which was last seen to read has run.
type readerClock struct {
	pid, tid int
	clock    *procfs.ThreadClock // nil before the first call of ran
}

// ran reports whether the thread has run since the last call, or whether that is not known.
func (c *readerClock) ran() bool {
	if c.clock != nil {
		ran, _ := c.clock.Ran() // it has, after an error
		return ran
	}
	if c.pid != 0 {
		c.clock, _ = procfs.NewThreadClock(c.pid, c.tid) // an error: the next call tries again
	}
	return true
}

// follow makes the thread that ev names the one to notice.
func (c *readerClock) follow(ev Evidence) {
	if c.pid != ev.pid || c.tid != ev.tid {
		*c = readerClock{pid: ev.pid, tid: ev.tid}
	}
}
