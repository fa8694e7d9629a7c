package procfs

import (
	"math"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ReadMemory reads memory of a process, as [unix.ProcessVMReadv] does: the buffers local from the
// places remote, each pair of which has one length. It returns how many bytes it has read.
//
// The filters of many containers refuse that system call
// (https://docs.docker.com/engine/security/seccomp/), although they allow to read the same from a
// file of /proc. ReadMemory then reads the file, with a system call for each place.
func ReadMemory(pid int, local []unix.Iovec, remote []unix.RemoteIovec) (int, error) {
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err != unix.EPERM && err != unix.ENOSYS {
		return n, err
	}
	fillReserve()
	n, again := readMemoryFile(pid, local, remote)
	if exhausted(again) {
		again = WithReserve(func() error {
			n, again = readMemoryFile(pid, local, remote)
			return again
		})
	}
	if again == unix.EACCES { // it is not the filter: the first error says more
		return 0, err
	}
	return n, again
}

func readMemoryFile(pid int, local []unix.Iovec, remote []unix.RemoteIovec) (n int, err error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return 0, unix.ESRCH
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for i, from := range remote {
		if from.Base > math.MaxInt64 {
			return n, unix.EFAULT
		}
		b := unsafe.Slice(local[i].Base, from.Len)
		got, err := unix.Pread(fd, b, int64(from.Base))
		if err == unix.EIO {
			err = unix.EFAULT
		}
		n += max(got, 0)
		if err != nil || got < len(b) {
			return n, err
		}
	}
	return n, nil
}
