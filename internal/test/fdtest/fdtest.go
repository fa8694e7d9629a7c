//go:build unix

// Package fdtest makes descriptors scarce in the program of a test.
package fdtest

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
)

// Limit limits this program to the descriptors below n, until restore is called.
func Limit(t testing.TB, n uint64) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	low := before
	low.Cur = n
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}

// Exhaust takes every descriptor that this program can have, until restore is called.
func Exhaust(t testing.TB) (restore func()) {
	t.Helper()
	freed := Limit(t, 256)
	var taken []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	return func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		freed()
	}
}
