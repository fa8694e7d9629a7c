package threads

import "golang.org/x/sys/unix"

// Calls that newer architectures leave out.
const (
	sysPoll      = unix.SYS_POLL
	sysSelect    = unix.SYS_SELECT
	sysEpollWait = unix.SYS_EPOLL_WAIT
	sysPause     = unix.SYS_PAUSE
)
