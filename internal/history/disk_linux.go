package history

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate makes room for the n bytes at off, beyond the end of the file. A file system that can't
// do that is no error: the room is then looked for when it is needed.
func allocate(f *os.File, off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}
