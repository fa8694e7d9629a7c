package listening

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/procfs"
)

// Of linux/inet_diag.h and linux/tcp_states.h.
const (
	byFamily    = 20      // SOCK_DIAG_BY_FAMILY
	listenState = 1 << 10 // TCPF_LISTEN
	requestSize = 56      // of struct inet_diag_req_v2
	messageSize = 72      // of struct inet_diag_msg
)

// listeners returns the listening TCP sockets of our network namespace, by inode. The kernel lists
// them without going through the connections, which /proc/net/tcp does: 20 µs a family, not 1 ms.
func listeners() (map[uint64]netip.AddrPort, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	switch {
	case err == unix.EPROTONOSUPPORT || err == unix.EAFNOSUPPORT:
		return nil, errors.ErrUnsupported
	case err != nil:
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	table := make(map[uint64]netip.AddrPort)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := dump(fd, family, table); err != nil && err != unix.ENOENT { // a kernel without the family
			return nil, os.NewSyscallError("listing listening sockets", err)
		}
	}
	return table, nil
}

// part holds one part of an answer of the kernel, which makes none larger. The poller's goroutine
// uses it.
var part [8 << 10]byte

// dump adds the listening sockets of an address family to the table.
func dump(fd int, family byte, table map[uint64]netip.AddrPort) error {
	e := binary.NativeEndian
	request := make([]byte, unix.SizeofNlMsghdr+requestSize)
	e.PutUint32(request, uint32(len(request)))
	e.PutUint16(request[4:], byFamily)
	e.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := request[unix.SizeofNlMsghdr:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	e.PutUint32(body[4:], listenState)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for buf := part[:]; ; {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT) // each part is there when it is asked for
		if err != nil {
			return err
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return err
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				return unix.Errno(-int32(e.Uint32(m.Data)))
			case m.Header.Type == byFamily && len(m.Data) >= messageSize:
				addr := netip.AddrFrom16([16]byte(m.Data[8:24]))
				if m.Data[0] == unix.AF_INET {
					addr = netip.AddrFrom4([4]byte(m.Data[8:12]))
				}
				port := binary.BigEndian.Uint16(m.Data[4:])
				table[uint64(e.Uint32(m.Data[68:]))] = netip.AddrPortFrom(addr, port)
			}
		}
	}
}

// sockets returns the inodes of the sockets that a process has open.
func sockets(pid int) (inodes []uint64, err error) {
	fds, err := procfs.Descriptors(pid)
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
