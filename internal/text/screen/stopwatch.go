package screen

import (
	"runtime"
	"time"
)

// A stopwatch bounds the processor time that a goroutine uses, which it keeps on one thread. On a
// busy machine the goroutine can wait for long without using any, and a limit of the time that
// passes would then refuse screens that are cheap to draw.
type stopwatch struct {
	limit time.Duration
	used  time.Duration // the thread's processor time at the start
	due   time.Time     // the limit can't be reached earlier
}

// startStopwatch returns a stopwatch for this goroutine, which must stop it.
func startStopwatch(limit time.Duration) *stopwatch {
	runtime.LockOSThread()
	return &stopwatch{limit, threadTime(), time.Now().Add(limit)}
}

func (w *stopwatch) stop() { runtime.UnlockOSThread() }

// over reports whether the limit is reached. It reads the slow clock of the thread only if enough
// time has passed for that.
func (w *stopwatch) over() bool {
	now := time.Now()
	if now.Before(w.due) {
		return false
	}
	left := w.limit - (threadTime() - w.used)
	w.due = now.Add(left)
	return left <= 0
}

var began = time.Now()

// elapsed returns the time since the program began.
func elapsed() time.Duration { return time.Since(began) }
