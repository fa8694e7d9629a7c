package pump

import "golang.org/x/sys/unix"

// buffered returns the number of bytes that a pipe holds.
func buffered(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCINQ) }
