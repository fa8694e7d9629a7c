//go:build linux

package procfs

import (
	"math"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// TestReadMemory: memory can be read where the system call for it is refused, too, and with the same
// errors.
func TestReadMemory(t *testing.T) {
	for name, filter := range map[string]bool{"by the system call": false, "by the file": true} {
		t.Run(name, func(t *testing.T) {
			if filter {
				refuse(t, unix.SYS_PROCESS_VM_READV)
			}
			tryReadMemory(t)
		})
	}
}

func tryReadMemory(t *testing.T) {
	from := []byte("the memory")
	read := func(pid int, second uintptr) (string, int, error) {
		into := make([]byte, len(from))
		local := []unix.Iovec{{Base: &into[0]}, {Base: &into[4]}}
		local[0].SetLen(4)
		local[1].SetLen(len(from) - 4)
		remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from[0])), Len: 4}, {Base: second, Len: len(from) - 4}}
		n, err := ReadMemory(pid, local, remote)
		return string(into), n, err
	}
	text, n, err := read(os.Getpid(), uintptr(unsafe.Pointer(&from[4])))
	if text != string(from) || n != len(from) || err != nil {
		t.Errorf("read %q, %d, %v", text, n, err)
	}
	for _, nowhere := range []uintptr{8, math.MaxUint64 - 100} {
		if text, n, err := read(os.Getpid(), nowhere); text[:4] != "the " || n == len(from) || err != nil && err != unix.EFAULT {
			t.Errorf("of a bad address: read %q, %d, %v", text, n, err)
		}
	}
	if _, _, err := read(1<<30, 8); err != unix.ESRCH {
		t.Errorf("of no process: %v", err)
	}
}

// refuse makes the kernel refuse a system call to the thread of a test, as the filter of a container
// does. The thread ends with the test.
func refuse(t *testing.T, call uint32) {
	runtime.LockOSThread()
	const number = 0 // in what a filter sees of a call
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	must.Do(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
	needtest.Unless(t, "the kernel has no filters", err, unix.EINVAL)
}
