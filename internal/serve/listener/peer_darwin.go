package listener

import (
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

func unixUser(c *net.UnixConn) (uid int, err error) {
	err = descriptor.Use(c, func(fd int) error {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}

// This system does not document how it shows the user of a TCP socket.
func tcpUser(_, _ netip.AddrPort) (uid int, err error) { return 0, errors.ErrUnsupported }
