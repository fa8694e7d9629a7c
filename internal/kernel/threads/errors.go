//go:build unix

package threads

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
)

// ErrNoWait means that a thread is in no call that waits for descriptors, or in one that can't be
// examined.
var ErrNoWait = errors.New("thread does not wait for descriptors")

// ErrMoved means that a thread has left the call it was seen in.
var ErrMoved = errors.New("thread has left its call")

// Hidden reports whether err means that there is nothing to see: the process, thread or descriptor
// is gone, or this system or its permissions never show it. After any other error, such as a lack
// of memory, the same reading can succeed later, so the error is no evidence.
func Hidden(err error) bool {
	for _, final := range []error{ErrNoWait, procfs.ErrGone, fs.ErrNotExist, unix.ESRCH, fs.ErrPermission, errors.ErrUnsupported} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// UnlessHidden returns err if the reading that failed with it can succeed later, and nil otherwise.
func UnlessHidden(err error) error {
	if Hidden(err) {
		return nil
	}
	return err
}
