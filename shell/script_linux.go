package shell

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// textFile returns a file without a name that holds text.
func textFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("command", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("keeping a long command line: %w", err)
	}
	f := os.NewFile(uintptr(fd), "command")
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return nil, fmt.Errorf("keeping a long command line: %w", err)
	}
	return f, nil
}
