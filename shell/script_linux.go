package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// unnamedFile returns an empty file in memory.
func unnamedFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "command"), nil
}
