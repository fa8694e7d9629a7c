//go:build unix

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// A fileID tells an open file from all others, by whatever name it was opened.
type fileID struct{ dev, ino uint64 }

func identify(st *unix.Stat_t) fileID { return fileID{uint64(st.Dev), st.Ino} }

// telling are the identities of those of files that only one job has open: pipes, sockets and its terminal.
func telling(files []*os.File, terminal *os.File) []fileID {
	var ids []fileID
	for _, f := range files {
		conn, err := f.SyscallConn()
		if err != nil {
			continue
		}
		conn.Control(func(fd uintptr) { // an error: it is closed, and tells nothing
			var st unix.Stat_t
			if unix.Fstat(int(fd), &st) != nil {
				return
			}
			if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFIFO || kind == unix.S_IFSOCK || f == terminal {
				ids = append(ids, identify(&st))
			}
		})
	}
	return ids
}
