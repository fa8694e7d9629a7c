package peer

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sockdiag"
)

func unixUser(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	ctlErr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(ctlErr, err); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// tcpUser returns the user of the socket that has the address own and is connected to other. It
// asks for that one socket; kernels and sandboxes without sock_diag have a table to search.
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
	request := make([]byte, 56) // struct inet_diag_req_v2
	request[0], request[1] = unix.AF_INET, unix.IPPROTO_TCP
	if own.Addr().Is6() {
		request[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(request[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(request[8:], own.Port())
	binary.BigEndian.PutUint16(request[10:], other.Port())
	copy(request[12:28], own.Addr().AsSlice())
	copy(request[28:44], other.Addr().AsSlice())
	binary.NativeEndian.PutUint64(request[48:], ^uint64(0)) // no cookie
	answers, err := sockdiag.Query(request, false)
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, errGone
	case errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP):
		return 0, errors.ErrUnsupported
	case err != nil:
		return 0, err
	case len(answers) != 1 || len(answers[0]) < 72:
		return 0, errors.ErrUnsupported
	}
	a := answers[0] // struct inet_diag_msg
	// If there is no such connection, the answer is about a socket that listens at the address.
	if address(a[0], a[8:24], a[4:6]) != own || address(a[0], a[24:40], a[6:8]) != other {
		return 0, errGone
	}
	if inode := binary.NativeEndian.Uint32(a[68:]); inode == 0 {
		return 0, errGone // and the user reads as root
	}
	return int(binary.NativeEndian.Uint32(a[64:])), nil
}

// address returns an address of a struct inet_diag_sockid.
func address(family byte, ip, port []byte) netip.AddrPort {
	addr := netip.AddrFrom16([16]byte(ip))
	if family == unix.AF_INET {
		addr = netip.AddrFrom4([4]byte(ip[:4]))
	}
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(port))
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
		f := strings.Fields(lines.Text()) // sl local_address rem_address st queues tr tm->when retrnsmt uid timeout inode …
		if len(f) < 10 || parse(f[1]) != own || parse(f[2]) != other || f[9] == "0" {
			continue
		}
		return strconv.Atoi(f[7])
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errGone
}

// parse reads an address of the table: the hexadecimal words of the IP address as this machine
// stores them, and the port.
func parse(s string) netip.AddrPort {
	words, port, _ := strings.Cut(s, ":")
	ip, err := hex.DecodeString(words)
	p, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(ip)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(ip); i += 4 {
		binary.NativeEndian.PutUint32(ip[i:], binary.BigEndian.Uint32(ip[i:]))
	}
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), uint16(p))
}
