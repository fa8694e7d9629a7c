package waiting

import (
	"time"

	"asyncrepl/internal/kernel/procfs"
)

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

// others returns the CPU time of the other threads of the program that c follows. If the kernel keeps no
// account of a thread, the reader's own time is part of it. If the program is gone, the next scan shows
// that.
func (c *readerClock) others() time.Duration {
	s, err := procfs.Inspect(c.pid)
	if err != nil || s.Threads == 1 {
		return 0
	}
	all, _ := procfs.CPUTime(c.pid)
	own, _ := procfs.ThreadTime(c.pid, c.tid)
	return all - own
}
