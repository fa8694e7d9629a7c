package worker

import (
	"errors"
	"net"
)

// askSender says that sessions have no branches on macOS, which has no child subreapers: the forked
// worker would become a child of launchd.
func askSender(*net.UnixConn) error { return errors.ErrUnsupported }

func sender(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
