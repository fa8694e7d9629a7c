package files

import "syscall"

// changeTime returns when the file or its data last changed, in nanoseconds.
func changeTime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }
