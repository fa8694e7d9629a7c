package screen

import "time"

// threadTime returns the time that has passed, because the processor time of a thread is not known
// without cgo.
func threadTime() time.Duration { return elapsed() }
