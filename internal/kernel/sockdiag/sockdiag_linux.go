// Package sockdiag asks the kernel about sockets, by the netlink family sock_diag(7).
//
// [TCP] lists sockets, [Connection] shows one end of a connection, and [Unix] a Unix socket and its
// other end. A failed system call is an *os.SyscallError, and the next try can succeed. A
// bare errno is the kernel's refusal: it has no such socket, or does not know the family. The
// package knows no process: /proc shows which process has a socket open.
package sockdiag

import (
	"encoding/binary"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// byFamily is the type of a request and of its answers, SOCK_DIAG_BY_FAMILY.
const byFamily = 20

// query sends a request, a struct inet_diag_req_v2 or unix_diag_req, and returns the bodies of the
// answers: one about one socket, or if dump is set one for each socket that the request selects.
func query(request []byte, dump bool) (answers [][]byte, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	header := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(request))
	binary.NativeEndian.PutUint32(header, uint32(cap(header)))
	binary.NativeEndian.PutUint16(header[4:], byFamily)
	flags := uint16(unix.NLM_F_REQUEST)
	if dump {
		flags |= unix.NLM_F_DUMP
	}
	binary.NativeEndian.PutUint16(header[6:], flags)
	if err := unix.Sendto(fd, append(header, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	for {
		messages, err := receive(fd)
		if err != nil {
			return answers, err
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return answers, nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				return answers, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			case m.Header.Type == byFamily:
				answers = append(answers, m.Data)
			}
		}
		if !dump {
			return answers, nil
		}
	}
}

// partSize is the size of the largest part of a dump that the kernel sends to a reader that has
// never asked for more.
const partSize = 8 << 10

// receive returns the next part of the answer. The kernel has it ready when it is asked for.
func receive(fd int) ([]syscall.NetlinkMessage, error) {
	part := make([]byte, partSize)
	n, _, err := unix.Recvfrom(fd, part, unix.MSG_DONTWAIT)
	if err != nil {
		return nil, os.NewSyscallError("recvfrom", err)
	}
	return syscall.ParseNetlinkMessage(part[:n])
}
