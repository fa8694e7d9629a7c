package files

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// nameless opens a new file in a directory without giving it a name there, so that nothing is left
// of the file however this process ends. Some file systems do not support O_TMPFILE
// (https://man7.org/linux/man-pages/man2/open.2.html).
func nameless(root *os.Root, dir string, perm fs.FileMode) (*os.File, error) {
	return root.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, perm)
}

// giveName gives a nameless file its name in a directory. The path in /proc needs no capability,
// unlike AT_EMPTY_PATH (https://man7.org/linux/man-pages/man2/link.2.html).
func giveName(root *os.Root, f *os.File, dir, name string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), int(d.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}
