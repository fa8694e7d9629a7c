package listener

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/kernel/sockdiag"
)

func unixUser(c *net.UnixConn) (uid int, err error) {
	err = descriptor.Use(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}

// tcpUser returns the user of the socket that has the address own and is connected to other. It
// asks for that one socket; kernels and sandboxes without sock_diag have a table to search. See
// https://man7.org/linux/man-pages/man7/sock_diag.7.html.
func tcpUser(own, other netip.AddrPort) (uid int, err error) {
	own, other = plain(own), plain(other)
	uid, err = askForUser(own, other)
	if unanswered := new(os.SyscallError); errors.As(err, &unanswered) || errors.Is(err, errors.ErrUnsupported) {
		return searchUser(own, other)
	}
	return uid, err
}

// plain returns an address without zone, and one of IPv4 as such.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// askForUser asks the kernel for the user of one socket.
func askForUser(own, other netip.AddrPort) (uid int, err error) {
	s, err := sockdiag.Connection(own, other)
	switch {
	// The kernel reports root as the user of a socket without an inode.
	case err == unix.ENOENT || err == nil && s.Inode == 0:
		return 0, errGone
	case err != nil:
		return 0, err
	}
	return int(s.User), nil
}

// searchUser searches the tables of /proc for one socket. A socket for IPv6 can have a connection
// over IPv4.
func searchUser(own, other netip.AddrPort) (uid int, err error) {
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(path, "6") {
			break
		}
		if err != nil {
			return 0, err
		}
		uid, err = searchTable(table, own, other)
		table.Close()
		if !errors.Is(err, errGone) {
			return uid, err
		}
	}
	return 0, errGone
}

func searchTable(table io.Reader, own, other netip.AddrPort) (uid int, err error) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		if s, ok := sockdiag.ParseTable(lines.Text()); ok && s.Local == own && s.Remote == other && s.Inode != 0 {
			return int(s.User), nil
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errGone
}
