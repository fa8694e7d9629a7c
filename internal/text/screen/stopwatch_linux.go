package screen

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of this thread
// (https://man7.org/linux/man-pages/man3/clock_gettime.3.html, CLOCK_THREAD_CPUTIME_ID).
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return elapsed()
	}
	return time.Duration(t.Nano())
}
