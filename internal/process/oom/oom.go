//go:build unix

// Package oom finds out which children the kernel has killed because memory was short, from the
// kernel's own count of such kills.
//
// A SIGKILL does not show its sender. A [Counter] attributes a death to the kernel only if the
// kernel's count has risen since the child was started, and no more deaths than the count has risen
// by. It attributes none while the count can't be read.
//
// The package knows no process. Its caller says when it starts a child, and when a child has died
// of a SIGKILL that the caller has not sent. Begin with Counter.
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

// A Counter attributes the deaths of children to the kernel, by the kernel's count of the processes
// that it has killed because memory was short.
type Counter struct {
	read func() (uint64, error)

	mu      sync.Mutex
	count   uint64
	when    time.Time
	claimed uint64 // kills up to this count have been attributed to children
}

// NewCounter returns a Counter that reads the kernel's count, of a control group or of the whole
// system, with read.
func NewCounter(read func() (uint64, error)) *Counter { return &Counter{read: read} }

// Recent returns the count, as it was at most a second ago.
func (c *Counter) Recent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.when.IsZero() || now.Sub(c.when) > fresh {
		c.count, c.when = c.now(), now
	}
	return c.count
}

// Claim reports whether the kernel has killed a child that was started when Recent returned since.
// It claims one OOM kill since then for that child, which no other child can claim.
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
