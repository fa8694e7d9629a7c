package sockets

import "fmt"

// at returns a path of a name in the directory. It is short, however long the path of the directory is.
func (d *Dir) at(name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", d.file.Fd(), name) }
