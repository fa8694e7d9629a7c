package listening

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/sockdiag"
	"asyncrepl/internal/kernel/threads"
)

// listeners returns the listening TCP sockets of our network namespace, by inode.
func listeners() (map[uint64]netip.AddrPort, error) {
	table := make(map[uint64]netip.AddrPort)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		sockets, err := sockdiag.TCP(family, sockdiag.Listening)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("listing listening sockets: %w", err)
		}
		for _, s := range sockets {
			table[uint64(s.Inode)] = s.Local
		}
	}
	return table, nil
}

// Watched returns the listening TCP sockets, by inode, that a process watches by the epoll set at
// descriptor epoll, as its event loop does.
func Watched(pid, epoll int) (map[uint64]netip.AddrPort, error) {
	inodes, err := threads.Thread{PID: pid, TID: pid}.Watched(epoll)
	if err != nil {
		return nil, err
	}
	table, err := listeners()
	maps.DeleteFunc(table, func(inode uint64, _ netip.AddrPort) bool { return !slices.Contains(inodes, inode) })
	return table, err
}

// sockets returns the inodes of the sockets that a process has open.
func sockets(pid int) (inodes []uint64, err error) {
	fds, err := procfs.Descriptors(pid, pid)
	for _, fd := range fds {
		var buf [64]byte
		n, linkErr := unix.Readlink(procfs.TaskPath(pid, pid, "fd/"+strconv.Itoa(fd)), buf[:])
		if linkErr != nil {
			if linkErr != unix.ENOENT { // closed meanwhile
				err = cmp.Or[error](err, linkErr)
			}
			continue
		}
		rest, ok := strings.CutPrefix(string(buf[:n]), "socket:[")
		if !ok {
			continue
		}
		if inode, parseErr := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64); parseErr == nil {
			inodes = append(inodes, inode)
		}
	}
	return inodes, err
}
