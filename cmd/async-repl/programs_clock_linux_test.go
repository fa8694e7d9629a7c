package main

import (
	"cmp"
	"context"
	"fmt"
	"sync"
)

// A clock ticks each time when a program has been seen to wait of the kind for which that takes
// longest: one that asks again and again. What has not been seen to wait at one of its ticks has
// not escaped for want of time, however busy the machine is.
type clock struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	tick chan struct{} // closed at the next tick
	err  error         // why there is none
}

func startClock(s *started) *clock {
	ctx, cancel := context.WithCancel(context.Background())
	c := &clock{cancel: cancel, done: make(chan struct{}), tick: make(chan struct{})}
	go func() { // the test's; ends with stop
		defer close(c.done)
		for ctx.Err() == nil && c.err == nil {
			err := s.period()
			c.mu.Lock()
			close(c.tick)
			c.tick, c.err = make(chan struct{}), err
			c.mu.Unlock()
		}
	}()
	return c
}

func (c *clock) stop() { c.cancel(); <-c.done }

// wait waits for the next tick.
func (c *clock) wait() error {
	c.mu.Lock()
	tick, err := c.tick, c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	<-tick
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// period starts a program that asks again and again, and returns when it has been seen to wait.
func (s *started) period() error {
	r, err := s.try("execute_command_async", "command", `until read -t 0.1 x; do :; done`, "wait_seconds", 0)
	if err != nil {
		return err
	}
	id := r.Header("Job ID")
	if r, err = s.settle(id); err == nil && r.Header("Status") != "waiting_input" {
		err = fmt.Errorf("a loop that asks does not wait:\n%s", r)
	}
	_, ended := s.try("cancel_job", "job_id", id, "force", true)
	return cmp.Or(err, ended)
}
