package worker

import (
	"errors"

	"golang.org/x/sys/unix"
)

// limitMemory limits the memory that a process, and each that it starts, can write to. The limit
// counts data, heap, private maps and stacks of threads, also those parts that are never touched.
// RLIMIT_AS would count reserved addresses too, of which node, Go and Java take more than any
// useful limit (https://man7.org/linux/man-pages/man2/getrlimit.2.html).
func limitMemory(pid int, bytes int64) error {
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	err := unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil)
	if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended, and that is reported
		return err
	}
	return nil
}
