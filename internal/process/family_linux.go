package process

import (
	"math"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeSubreaper has orphans among our descendants come to us, and tells whether they do.
func becomeSubreaper() bool { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil }

// lingers tells whether something may be left of a session that we can't see among our descendants. It can't.
func lingers(int) bool { return false }

// childSignals tells of dying children.
func childSignals() (dying <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1) // one is enough: a look finds all
	signal.Notify(c, syscall.SIGCHLD)
	return c, func() { signal.Stop(c) }
}

// shed sees to it that our children inherit nothing of what we have inherited. Signals that we were started to ignore,
// as a shell does with a background job's SIGINT, are caught: children begin with a default for what their parent
// catches. Descriptors that were left open for us are closed in them.
func shed() {
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // an older kernel can't: then they are inherited

	ignored := make(chan os.Signal, 1) // nobody reads it: to catch is all
	b, _ := slurp("/proc/self/status", nil)
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if inSet(b, "SigIgn", sig) {
			signal.Notify(ignored, sig)
		}
	}
}
