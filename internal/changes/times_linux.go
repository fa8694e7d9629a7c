package changes

import (
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
