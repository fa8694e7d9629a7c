//go:build unix

package process

import (
	"runtime"
	"sync"
)

// spare is how many threads at least there are for goroutines from the first start on. Few servers ever need more.
const spare = 10

// takeThreads makes threads that the runtime keeps for when it needs them. Where the user has as many processes as he may
// by then it could make none, and would end the server with all its jobs. The start does not wait for them, and no server
// makes them before it has started something: the first answer does not wait for them either.
func takeThreads() {
	var taken sync.WaitGroup
	taken.Add(spare)
	for range spare {
		go func() { // owned by the family; ends when all are there
			runtime.LockOSThread() // so that each has one of its own
			taken.Done()
			taken.Wait()
			runtime.UnlockOSThread()
		}()
	}
}
