package tty

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// shortages counts the steps of looks that failed for want of descriptors or memory. What a look did not see then may be
// there all the same. The want is the whole process's, or the system's, and so is the count: a look that meets another's
// shortage is merely taken again.
var shortages atomic.Uint64

// scarce tells whether a step failed, and counts it if that was for want of something.
func scarce(err error) bool {
	switch err {
	case nil:
		return false
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		shortages.Add(1)
	}
	return true
}

// openFile opens what a look reads; false if that can't be done.
func openFile(path string, flags int) (fd int, ok bool) {
	fd, err := unix.Open(path, flags|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fd, !scarce(err)
}
