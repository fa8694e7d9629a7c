package changes

import (
	"time"

	"golang.org/x/sys/unix"
)

// coarseNow returns the time that the kernel stamps files with.
func coarseNow() time.Time { return time.Now() }

// fineNow returns no time, because the time of coarseNow is fine.
func fineNow() time.Time { return time.Time{} }

// hasFineTimes is not called: fineNow returns no time.
func hasFineTimes(int) bool { return false }

// times returns when a file was made and when it was modified.
func times(dir int, name string) (born, modified time.Time, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return born, modified, err
	}
	return time.Unix(st.Btim.Unix()), time.Unix(st.Mtim.Unix()), nil
}
