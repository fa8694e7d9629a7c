package procfs

import (
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The reserve makes processes visible while this process's table of descriptors is full. Without it
// a full table would leave the trees of all jobs unread just when jobs must be ended to make room.
// It holds two descriptors open on something harmless. An open that fails because the table
// (EMFILE) or the system's (ENFILE) is full is repeated under the reserve's lock with both of them
// closed; then they are opened again. Two, because a signal needs two at once: one on the process
// and one to verify it. If they can't be opened again, because another goroutine took the numbers
// meanwhile, every later read tries.
//
// There is one reserve in a process, as there is one table of descriptors.
var reserve struct {
	full atomic.Bool // fds holds reserveSize

	mu  sync.Mutex
	fds []int
}

const reserveSize = 2

// WithReserve runs f, which opens at most two descriptors at a time and closes them again. If f's
// error is that no descriptor is left, WithReserve frees the reserve and runs f once more. It
// returns f's last error. The second run holds the reserve's lock, so f must call no function of
// this package.
func WithReserve(f func() error) error {
	fillReserve()
	err := f()
	if !exhausted(err) {
		return err
	}
	reserve.mu.Lock()
	defer reserve.mu.Unlock()
	for _, fd := range reserve.fds {
		unix.Close(fd)
	}
	reserve.fds = reserve.fds[:0]
	reserve.full.Store(false)
	err = f()
	fill()
	return err
}

// exhausted reports whether err means that no descriptor is left.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// fillReserve opens the descriptors that the reserve lacks. It costs one atomic load if it lacks
// none.
func fillReserve() {
	if reserve.full.Load() {
		return
	}
	reserve.mu.Lock()
	defer reserve.mu.Unlock()
	fill()
}

// fill is fillReserve for a caller that holds reserve.mu.
func fill() {
	for len(reserve.fds) < reserveSize {
		fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		reserve.fds = append(reserve.fds, fd)
	}
	reserve.full.Store(true)
}
