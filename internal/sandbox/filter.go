//go:build linux

package sandbox

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// A filter of system calls must see the number as the kernel will: another architecture has other
// numbers, and x32 sets a bit in them. The kernel takes 32 bits of most arguments, so the filter
// compares 32 bits: a comparison of 64 is passed by a request of TIOCSTI with a bit set above them
// (https://nvd.nist.gov/vuln/detail/CVE-2019-10063).

// Refused are system calls that a job has no use for, because they need privileges that it has not,
// or that undo the sandbox or reach parts of the kernel in which such ways out were found.
var refused = map[unix.Errno][]uint32{
	// Programs that find these missing use older ones.
	unix.ENOSYS: {unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER},
	unix.EPERM: {
		unix.SYS_UNSHARE, unix.SYS_SETNS, // namespaces
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
		unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, // keyrings belong to no namespace
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	},
}

const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// x32 is the bit of the numbers of x32, an ABI of amd64. No other architecture has such numbers.
const x32 = 0x40000000

// Filter returns the filter of system calls as bubblewrap reads it, from the file that its option
// --seccomp names. The error is that this architecture has none.
func Filter() ([]byte, error) {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("there is no filter of system calls for %s", runtime.GOARCH)
	}
	allow := unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}
	deny := func(e unix.Errno) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(e)}
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset} // offsets are those of struct seccomp_data
	}
	argument := func(n uint32) unix.SockFilter { return load(16 + 8*n) } // the lower half, because both architectures are little-endian
	// When runs body if the value that was loaded last passes a test, and skips it otherwise.
	when := func(test uint16, k uint32, body ...unix.SockFilter) []unix.SockFilter {
		return append([]unix.SockFilter{{Code: unix.BPF_JMP | test, K: k, Jf: uint8(len(body))}}, body...)
	}
	is := func(k uint32, body ...unix.SockFilter) []unix.SockFilter { return when(unix.BPF_JEQ, k, body...) }
	join := func(parts ...[]unix.SockFilter) (all []unix.SockFilter) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	one := func(f ...unix.SockFilter) []unix.SockFilter { return f }
	// Only returns a body that allows the values of an argument that are listed.
	only := func(n uint32, e unix.Errno, values ...uint32) []unix.SockFilter {
		body := one(argument(n))
		for _, v := range values {
			body = append(body, is(v, allow)...)
		}
		return append(body, deny(e))
	}

	program := join(
		one(load(4)), // the architecture
		one(unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ, K: arch, Jt: 1}, deny(unix.ENOSYS)),
		one(load(0)), // the number of the call
		when(unix.BPF_JGE, x32, deny(unix.ENOSYS)),
	)
	for _, e := range []unix.Errno{unix.ENOSYS, unix.EPERM} {
		for _, nr := range refused[e] {
			program = append(program, is(nr, deny(e))...)
		}
	}
	// Other protocols of IP than these load modules of the kernel that hardly any program uses.
	// MPTCP would get past a filter or proxy of TCP; Go and curl use TCP if it is not there.
	ip := only(2, unix.EPROTONOSUPPORT, unix.IPPROTO_IP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6)
	netlink := only(2, unix.EPROTONOSUPPORT, unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG)
	program = append(program, join(
		is(unix.SYS_CLONE, join(one(argument(0)), when(unix.BPF_JSET, newNamespaces, deny(unix.EPERM)), one(allow))...),
		// They put input into a terminal, as if its person had typed it.
		is(unix.SYS_IOCTL, join(one(argument(1)), is(unix.TIOCSTI, deny(unix.EPERM)), is(unix.TIOCLINUX, deny(unix.EPERM)), one(allow))...),
		is(unix.SYS_SOCKETPAIR, only(0, unix.EAFNOSUPPORT, unix.AF_UNIX)...),
		is(unix.SYS_SOCKET, join(one(argument(0)),
			is(unix.AF_UNIX, allow), is(unix.AF_INET, ip...), is(unix.AF_INET6, ip...), is(unix.AF_NETLINK, netlink...),
			one(deny(unix.EAFNOSUPPORT)))...),
		one(allow),
	)...)
	return binary.Append(nil, binary.NativeEndian, program)
}
