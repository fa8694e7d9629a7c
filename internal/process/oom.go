//go:build unix

package process

// The kernel counts the processes that it kills because memory is short, and a SIGKILL does not show
// its sender. An oomCounter attributes a death to the kernel only if the kernel's count has risen
// since the child was started, and no more deaths than the count has risen by. It attributes none
// while the count can't be read.

import (
	"math"
	"sync"
	"time"
)

// oomFresh bounds the age of the cached OOM-kill count. Reading it costs more than starting a process.
const oomFresh = time.Second

// oomUnknown stands for a count that could not be read. No death is attributed to the kernel then.
const oomUnknown = math.MaxUint64

// An oomCounter attributes the deaths of children to the kernel, by the kernel's count of the
// processes that it has killed because memory was short.
type oomCounter struct {
	read func() (uint64, error)

	mu      sync.Mutex
	count   uint64
	when    time.Time
	claimed uint64 // kills up to this count have been attributed to children
}

// newOOMCounter returns an oomCounter that reads the kernel's count, of a control group or of the
// whole system, with read.
func newOOMCounter(read func() (uint64, error)) *oomCounter { return &oomCounter{read: read} }

// Recent returns the count as it was within the last second.
func (c *oomCounter) Recent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.when.IsZero() || now.Sub(c.when) > oomFresh {
		c.count, c.when = c.now(), now
	}
	return c.count
}

// Claim reports whether the kernel has killed a child that was started when Recent returned since.
// It claims one OOM kill since then for that child, which no other child can claim.
func (c *oomCounter) Claim(since uint64) bool {
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
	n, err := c.read()
	if err != nil {
		return oomUnknown
	}
	return n
}
