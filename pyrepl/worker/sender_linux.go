package worker

import (
	"io"
	"net"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// askSender has the kernel report which process sent each message on conn (SO_PASSCRED,
// https://man7.org/linux/man-pages/man7/unix.7.html).
func askSender(conn *net.UnixConn) error {
	return descriptor.Use(conn, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
}

// sender waits for the first message on conn, leaves it there and returns the pid of the process
// that has sent it. The error is io.EOF if there is no message and none can come.
func sender(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	readErr := raw.Read(func(fd uintptr) bool {
		var first [1]byte
		rights := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
		n, size, _, _, recvErr := unix.Recvmsg(int(fd), first[:], rights, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case recvErr == unix.EAGAIN || recvErr == unix.EINTR:
			return false
		case recvErr == nil && n == 0:
			recvErr = io.EOF
		case recvErr == nil:
			pid, recvErr = credentials(rights[:size])
		}
		err = recvErr
		return true
	})
	if readErr != nil {
		err = readErr
	}
	return pid, err
}

// credentials returns the pid in a control message of the kernel.
func credentials(rights []byte) (pid int, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if c, err := unix.ParseUnixCredentials(&m); err == nil {
			return int(c.Pid), nil
		}
	}
	return 0, unix.ENODATA
}
