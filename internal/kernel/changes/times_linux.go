package changes

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// coarseNow returns the time that the kernel stamps files with. It lags behind the fine clock.
func coarseNow() time.Time {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return time.Now()
	}
	return time.Unix(ts.Unix())
}

// stamped is a file in memory that fineNow changes to see what time the kernel gives it.
var stamped struct {
	mu sync.Mutex
	fd int // 0: not made yet
}

// fineNow returns a time that is later than the time of any file written before, and not later than
// the time of any file written afterwards, on file systems with fine times. From Linux 6.13 on the
// kernel gives such a time to a file if its last one has been read, and no earlier one to any file
// after that (https://www.kernel.org/doc/html/latest/filesystems/multigrain-ts.html). The first
// change takes over the last time that was given, the second one gets a new time. Older kernels
// give files the time of coarseNow. If no file can be made, fineNow returns the zero time.
func fineNow() (now time.Time) {
	stamped.mu.Lock()
	defer stamped.mu.Unlock()
	if stamped.fd == 0 {
		fd, err := unix.MemfdCreate("clock", unix.MFD_CLOEXEC)
		if err != nil {
			return now
		}
		stamped.fd = fd // open for the life of the process
	}
	for range 2 {
		var st unix.Stat_t
		if unix.Fchmod(stamped.fd, 0o600) != nil || unix.Fstat(stamped.fd, &st) != nil {
			return time.Time{}
		}
		now = time.Unix(st.Ctim.Unix())
	}
	return now
}

// hasFineTimes reports whether the file system of an open directory has them on the kernels that do.
// Those over a network have the times of another machine.
func hasFineTimes(dir int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dir, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

// times returns when a file was made, or the zero time if the file system does not keep that, and
// when it was modified. A file system in the network is not asked again for what is cached.
func times(dir int, name string) (born, modified time.Time, err error) {
	var st unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(dir, name, flags, unix.STATX_MTIME|unix.STATX_BTIME, &st); err != nil {
		return born, modified, err
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		born = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	return born, time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)), nil
}
