//go:build unix

package process

import (
	"sync"
	"time"
)

// oomFresh is how old a count may be that a start goes by. To read it costs more than a start does else.
const oomFresh = time.Second

// An oomCounter tells whether a child was killed by the kernel for want of memory: only where the kernel's count has
// risen since the child was started, and for no more children than it has risen by.
type oomCounter struct {
	mu      sync.Mutex
	read    func() (uint64, bool) // nil: oomKills
	count   uint64
	when    time.Time
	claimed uint64 // up to here the kills have been put down to children
}

// recent is the count of now or a moment ago.
func (c *oomCounter) recent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.when.IsZero() || now.Sub(c.when) > oomFresh {
		c.count, c.when = c.now(), now
	}
	return c.count
}

// claim puts a death down to the kernel if one of its kills since then is not put down to another.
func (c *oomCounter) claim(since uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimed = max(c.claimed, since)
	if c.now() <= c.claimed {
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
	n, _ := read()
	return n
}
