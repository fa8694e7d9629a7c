package files

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// nameless opens a new file in a directory that has no name there, so that nothing is left of it
// however this process ends. Some file systems have no such files.
func nameless(root *os.Root, dir string, perm fs.FileMode) (*os.File, error) {
	return root.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, perm)
}

// giveName gives a nameless file its name in a directory.
func giveName(root *os.Root, f *os.File, dir, name string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), int(d.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}
