package proc

import (
	"bytes"
	"os"
	"os/signal"
	"strconv"
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

// takeIgnored catches the signals that we were started to ignore, as a shell does with a background job's SIGINT:
// children start with a default for what their parent catches, but inherit what it ignores.
func takeIgnored() {
	b, err := slurp("/proc/self/status", nil)
	if err != nil {
		return
	}
	_, rest, _ := bytes.Cut(b, []byte("\nSigIgn:\t"))
	hex, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, _ := strconv.ParseUint(string(hex), 16, 64)
	ignored := make(chan os.Signal) // nobody reads it: to catch is all
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if mask>>(sig-1)&1 == 1 {
			signal.Notify(ignored, sig)
		}
	}
}
