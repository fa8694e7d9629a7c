package listener

import (
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

func unixUser(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	ctlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err := errors.Join(ctlErr, err); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// This system does not document how it shows the user of a TCP socket.
func tcpUser(_, _ netip.AddrPort) (uid int, err error) { return 0, errors.ErrUnsupported }
