package tty

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A call is the system call that a thread is blocked in.
type call struct {
	number int
	args   [6]uint64
}

// blockedIn tells what a thread is blocked in. A thread that was woken is not, even if it has had no processor yet: the
// kernel shows it as running. Neither is one of a 32-bit program, whose calls have other numbers: that its stack is so
// low tells it.
func blockedIn(pid, tid int) (c call, ok bool) {
	c, ok = shownCall(pid, tid)
	if !ok || c.number != unix.SYS_RESTART_SYSCALL {
		return c, ok
	}
	number, known := resumed(pid, tid)
	if again, ok := shownCall(pid, tid); !ok || again != c { // it was woken meanwhile
		return again, ok && again.number != unix.SYS_RESTART_SYSCALL
	}
	if known {
		c.number = number
	}
	return c, true
}

// resumed tells which call a thread is in that is shown to be in restart_syscall, by which the kernel takes up a call
// again after a stop (SIGSTOP, ^Z, a debugger, a frozen container). The arguments are still those of that call. Only
// poll, and calls that wait for a time, are taken up so; all others are shown as they were. The name of the kernel's
// function in which the thread sleeps tells which; false where the kernel keeps that to itself.
func resumed(pid, tid int) (number int, ok bool) {
	var buf [128]byte
	in := readFile(taskFile(pid, tid, "wchan"), buf[:]) // "poll_schedule_timeout.constprop.0", "futex_do_wait", or "0"
	switch {
	case len(in) == 0 || string(in) == "0":
		return 0, false
	case bytes.Contains(in, []byte("poll")):
		return sysPoll, true
	}
	return unix.SYS_NANOSLEEP, true // or a futex, of which the same is to be said
}

// shownCall reads what the kernel shows of the call that a thread is blocked in.
func shownCall(pid, tid int) (c call, ok bool) {
	var buf [256]byte
	b := readFile(taskFile(pid, tid, "syscall"), buf[:]) // "0 0x3 0x7ffd… …", "running", or "-1 …"
	i := 0
	for f := range bytes.FieldsSeq(b) {
		x, err := strconv.ParseInt(string(f), 10, 64)
		switch {
		case i == 0 && (err != nil || x < 0):
			return call{}, false
		case i == 0:
			c.number = int(x)
		case i <= len(c.args):
			c.args[i-1], err = strconv.ParseUint(string(f), 0, 64)
		case i == len(c.args)+1:
			stack, err := strconv.ParseUint(string(f), 0, 64)
			return c, err == nil && stack >= 1<<32
		}
		if i > 0 && err != nil && i <= len(c.args) {
			return call{}, false
		}
		i++
	}
	return call{}, false
}

// A member is a descriptor that a thread waits for.
type member struct {
	fd    int
	input bool   // for something to read
	inode uint64 // of an epoll set's member, whose descriptor may be closed or another file's by now; 0: as the descriptor
}

// A wait is a call that ends with what happens to descriptors.
type wait struct {
	members []member
	read    bool          // it is a read of its one member
	timeout time.Duration // after which it ends in any case; negative: never
}

// inputEvents are those by which poll and epoll ask for input: POLLIN and POLLRDNORM.
const inputEvents = unix.POLLIN | 0x40

// maxMembers is the largest set that is looked into.
const maxMembers = 4096

// waits tells what the call of the thread waits for; false if it is no wait for descriptors, or can't be looked into.
func (c call) waits(pid, tid int) (w wait, ok bool) {
	w.timeout = -1
	switch c.number {
	case unix.SYS_READ, unix.SYS_READV:
		w.read = true
		w.members = []member{{fd: int(int32(c.args[0])), input: true}}
		return w, true
	case sysPoll:
		w.timeout = milliseconds(c.args[2])
		w.members, ok = polled(pid, c.args[0], c.args[1])
	case unix.SYS_PPOLL:
		if w.timeout, ok = timespec(pid, c.args[2], time.Nanosecond); ok {
			w.members, ok = polled(pid, c.args[0], c.args[1])
		}
	case sysSelect, unix.SYS_PSELECT6:
		unit := time.Nanosecond
		if c.number == sysSelect {
			unit = time.Microsecond
		}
		if w.timeout, ok = timespec(pid, c.args[4], unit); ok {
			w.members, ok = selected(pid, int(int32(c.args[0])), [3]uint64(c.args[1:4]))
		}
	case sysEpollWait, unix.SYS_EPOLL_PWAIT:
		w.timeout = milliseconds(c.args[3])
		w.members, ok = enrolled(pid, tid, int(int32(c.args[0])))
	case unix.SYS_EPOLL_PWAIT2:
		if w.timeout, ok = timespec(pid, c.args[3], time.Nanosecond); ok {
			w.members, ok = enrolled(pid, tid, int(int32(c.args[0])))
		}
	}
	return w, ok
}

func milliseconds(arg uint64) time.Duration { return time.Duration(int32(arg)) * time.Millisecond }

// timespec reads a time that a call was given: seconds, and units behind them.
func timespec(pid int, address uint64, unit time.Duration) (time.Duration, bool) {
	if address == 0 {
		return -1, true
	}
	var b [16]byte
	if !peek(pid, address, b[:]) {
		return 0, false
	}
	seconds := min(binary.NativeEndian.Uint64(b[:8]), 1<<31)
	return time.Duration(seconds)*time.Second + time.Duration(binary.NativeEndian.Uint64(b[8:]))*unit, true
}

// polled reads the set of a poll.
func polled(pid int, address, n uint64) ([]member, bool) {
	if n > maxMembers {
		return nil, false
	}
	b := make([]byte, 8*n)
	if !peek(pid, address, b) {
		return nil, false
	}
	set := make([]member, 0, n)
	for ; len(b) > 0; b = b[8:] {
		fd := int32(binary.NativeEndian.Uint32(b))
		events := binary.NativeEndian.Uint16(b[4:])
		if fd >= 0 { // others are passed over
			set = append(set, member{fd: int(fd), input: events&inputEvents != 0})
		}
	}
	return set, true
}

// selected reads the three sets of a select.
func selected(pid, n int, addresses [3]uint64) ([]member, bool) {
	if n < 0 || n > maxMembers {
		return nil, false
	}
	var set []member
	for i, address := range addresses {
		if address == 0 {
			continue
		}
		b := make([]byte, (n+63)/64*8)
		if !peek(pid, address, b) {
			return nil, false
		}
		for fd := range n {
			word := binary.NativeEndian.Uint64(b[fd/64*8:])
			if word>>(fd%64)&1 == 1 {
				set = append(set, member{fd: fd, input: i == 0})
			}
		}
	}
	return set, true
}

// enrolled lists an epoll set.
func enrolled(pid, tid, epoll int) (set []member, ok bool) {
	for size := 4 << 10; ; size *= 4 {
		if size > maxMembers*128 {
			return nil, false
		}
		b := readAll(taskFile(pid, tid, "fdinfo/")+strconv.Itoa(epoll), size)
		if len(b) == 0 {
			return nil, false
		}
		if len(b) == size { // there may be more
			continue
		}
		for line := range bytes.Lines(b) { // "tfd:        5 events:       19 data: …  pos:0 ino:5 sdev:1a"
			if m, ok := parseMember(line); ok {
				set = append(set, m)
			}
		}
		return set, true
	}
}

func parseMember(line []byte) (m member, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte("tfd:"))
	if !ok {
		return m, false
	}
	field := func(name string, base int) uint64 {
		_, after, _ := bytes.Cut(rest, []byte(name))
		after = bytes.TrimLeft(after, " ")
		end := bytes.IndexAny(after, " \n")
		if end < 0 {
			return 0
		}
		x, _ := strconv.ParseUint(string(after[:end]), base, 64)
		return x
	}
	m.fd = int(field("", 10))
	m.input = field("events:", 16)&inputEvents != 0
	m.inode = field("ino:", 16)
	return m, true
}

// peek reads the memory of a process at address into b, all of it.
func peek(pid int, address uint64, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	local := []unix.Iovec{{Base: unsafe.SliceData(b)}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
	return !scarce(err) && n == len(b)
}

// readAll reads at most size bytes of a file that the kernel hands out in parts.
func readAll(path string, size int) []byte {
	fd, ok := openFile(path, 0)
	if !ok {
		return nil
	}
	defer unix.Close(fd)
	b := make([]byte, size)
	n := 0
	for n < size {
		k, err := unix.Read(fd, b[n:])
		if scarce(err) {
			return nil
		}
		if k <= 0 {
			break
		}
		n += k
	}
	return b[:n]
}
