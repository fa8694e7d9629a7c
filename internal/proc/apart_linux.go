package proc

import (
	"math"
	"runtime"

	"golang.org/x/sys/unix"
)

// apart runs f, which opens and closes files by system calls alone, on a thread with a table of descriptors of its own,
// and returns when it has. There is room where the process's own table is full: a process that can't be looked at would
// be taken for one that has ended, and what a job left for nothing. Before Linux 5.9 f is not run.
func apart(f func()) {
	done := make(chan struct{})
	go func() { // owned by this call; the thread ends with it, for it is never unlocked, and its table with the thread
		defer close(done)
		runtime.LockOSThread()
		if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_UNSHARE) == nil {
			f()
		}
	}()
	<-done
}
