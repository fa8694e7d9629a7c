//go:build unix

package main

import (
	"runtime"
	"sync"
)

// threads is how many threads the server has from its start on. It seldom needs
// more, but under floods.
const threads = 16

// takeThreads makes threads that the runtime keeps for when it needs them. Where
// the user has as many processes as he may by then it could make none, and would
// end the server. The first answer does not wait for them.
func takeThreads() {
	var taken sync.WaitGroup
	taken.Add(threads)
	for range threads {
		go func() { // owned by nobody; ends when all are there
			runtime.LockOSThread() // so that each has one of its own
			taken.Done()
			taken.Wait()
			runtime.UnlockOSThread()
		}()
	}
}
