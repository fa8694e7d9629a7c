package guard

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// wakeWithParent makes the kernel continue this process when its parent ends, in case it is stopped
// then.
func wakeWithParent() {
	unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGCONT), 0, 0, 0) // it accepts every signal
}
