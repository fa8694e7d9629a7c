//go:build unix

package process

import (
	"math"
	"sync"
	"time"
)

// oomFresh bounds the age of the cached OOM-kill count. Reading it costs more than starting a
// process.
const oomFresh = time.Second

// oomUnknown stands for a count that could not be read. No death is attributed to the kernel then.
const oomUnknown = math.MaxUint64

// An oomCounter finds out whether the kernel has killed a child because memory was short: only if
// its count of such kills has risen since the child started, and for no more children than it has
// risen by.
type oomCounter struct {
	mu      sync.Mutex
	read    func() (uint64, error) // nil: oomKills
	count   uint64
	when    time.Time
	claimed uint64 // kills up to this count have been attributed to children
}

// recent returns the count, at most oomFresh old.
func (c *oomCounter) recent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.when.IsZero() || now.Sub(c.when) > oomFresh {
		c.count, c.when = c.now(), now
	}
	return c.count
}

// claim attributes a death to the kernel if there has been an OOM kill after the count since that
// is not attributed to another child. It reports whether it did.
func (c *oomCounter) claim(since uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if since == oomUnknown || now == oomUnknown {
		return false
	}
	c.claimed = max(c.claimed, since)
	if now <= c.claimed {
		return false
	}
	c.claimed++
	return true
}

func (c *oomCounter) now() uint64 {
	read := c.read
	if read == nil {
		read = oomKills
	}
	n, err := read()
	if err != nil {
		return oomUnknown
	}
	return n
}
