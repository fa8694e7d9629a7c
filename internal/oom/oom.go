//go:build unix

// Package oom finds out which children the kernel has killed because memory was short, from the
// kernel's own count of such kills.
//
// A SIGKILL alone does not show who sent it. A [Counter] attributes a death to the kernel only if
// the kernel's count has risen since the child was started, and no more deaths than it has risen
// by. A count that can't be read attributes none.
//
// The package knows no process: its caller says when a child was started and that it died of a
// SIGKILL that the caller has not sent. Begin with Counter.
package oom

import (
	"math"
	"sync"
	"time"
)

// fresh bounds the age of the cached OOM-kill count. Reading it costs more than starting a process.
const fresh = time.Second

// unknown stands for a count that could not be read. No death is attributed to the kernel then.
const unknown = math.MaxUint64

// An Counter finds out whether the kernel has killed a child because memory was short: only if its
// count of such kills has risen since the child started, and for no more children than it has risen
// by.
type Counter struct {
	read func() (uint64, error)

	mu      sync.Mutex
	count   uint64
	when    time.Time
	claimed uint64 // kills up to this count have been attributed to children
}

// NewCounter returns a Counter of the kills that read counts, which is [Kills] except in tests.
func NewCounter(read func() (uint64, error)) *Counter { return &Counter{read: read} }

// Recent returns the count, at most fresh old.
func (c *Counter) Recent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.when.IsZero() || now.Sub(c.when) > fresh {
		c.count, c.when = c.now(), now
	}
	return c.count
}

// Claim attributes a death to the kernel if there has been an OOM kill after the count since that
// is not attributed to another child. It reports whether it did.
func (c *Counter) Claim(since uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if since == unknown || now == unknown {
		return false
	}
	c.claimed = max(c.claimed, since)
	if now <= c.claimed {
		return false
	}
	c.claimed++
	return true
}

func (c *Counter) now() uint64 {
	n, err := c.read()
	if err != nil {
		return unknown
	}
	return n
}
