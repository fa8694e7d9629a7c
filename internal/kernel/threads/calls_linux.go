package threads

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
)

// A Call is the system call that a thread is blocked in.
type Call struct {
	number int
	args   [6]uint64
}

// BlockedIn returns the call that the thread is blocked in, or ErrNoWait. A thread that was woken
// is not blocked, even if it has had no processor yet. The kernel shows it as running, except for
// the moment until another processor takes it up; see [Thread.Woken]. A thread of a 32-bit program
// counts as not blocked, because its calls have other numbers.
func (t Thread) BlockedIn() (Call, error) {
	c, err := t.shownCall()
	if err != nil || c.number != unix.SYS_RESTART_SYSCALL {
		return c, err
	}
	number, err := t.resumed(c)
	if err != nil {
		return c, err
	}
	switch again, err := t.shownCall(); {
	case err != nil:
		return c, err
	case again == c:
		c.number = number
		return c, nil
	case again.number == unix.SYS_RESTART_SYSCALL:
		return c, ErrNoWait // it was woken meanwhile, and stopped again
	default:
		return again, nil
	}
}

// resumed returns the call of a thread that is shown to be in restart_syscall, by which the kernel
// resumes a call after a stop (SIGSTOP, ^Z, a debugger, a frozen container): see
// https://man7.org/linux/man-pages/man2/restart_syscall.2.html. The kernel still shows that call's
// arguments. It resumes only poll, and calls that wait for a time, in this way; it shows all others
// as they were. The name of the kernel's function in which the thread sleeps distinguishes them. If
// the kernel keeps it secret, the call remains restart_syscall.
func (t Thread) resumed(c Call) (number int, err error) {
	var buf [128]byte
	in, err := procfs.ReadStart(t.file("wchan"), buf[:]) // "poll_schedule_timeout.constprop.0", "futex_do_wait", or "0"
	switch {
	case err != nil || len(in) == 0 || string(in) == "0":
		return unix.SYS_RESTART_SYSCALL, UnlessHidden(err)
	case bytes.Contains(in, []byte("poll")):
		return sysPoll, nil
	case !bytes.Contains(in, []byte("nanosleep")):
		return unix.SYS_FUTEX, nil
	case c.args[0] < clocks:
		return unix.SYS_CLOCK_NANOSLEEP, nil
	}
	return unix.SYS_NANOSLEEP, nil
}

// clocks is more than the number of any clock of the system. An address is larger.
const clocks = 4096

// shownCall returns the call that the kernel shows the thread to be blocked in, or ErrNoWait.
func (t Thread) shownCall() (Call, error) {
	var buf [256]byte
	b, err := procfs.ReadStart(t.file("syscall"), buf[:])
	if err != nil {
		return Call{}, err
	}
	c, ok := parseCall(b)
	if !ok {
		return Call{}, ErrNoWait
	}
	return c, nil
}

// parseCall reads a syscall file (https://man7.org/linux/man-pages/man5/proc_pid_syscall.5.html):
// number, arguments, stack pointer and program counter, such as "0 0x3 0x7ffd… …". It reports false
// for "running", "-1 …", and the low stack pointer of a 32-bit program.
func parseCall(b []byte) (c Call, ok bool) {
	f := bytes.Fields(b)
	if len(f) < 2+len(c.args) {
		return Call{}, false
	}
	var err error
	if c.number, err = strconv.Atoi(string(f[0])); err != nil || c.number < 0 {
		return Call{}, false
	}
	for i := range c.args {
		if c.args[i], err = strconv.ParseUint(string(f[1+i]), 0, 64); err != nil {
			return Call{}, false
		}
	}
	stack, err := strconv.ParseUint(string(f[1+len(c.args)]), 0, 64)
	return c, err == nil && stack >= 1<<32
}

// A Member is a descriptor that a thread waits for.
type Member struct {
	FD    int
	Input bool // the thread waits for something to read

	// inode is the file's, if the member is from an epoll set, and otherwise 0. A set keeps a file
	// whose descriptor has been closed, and the number can be another file's by now: see
	// https://man7.org/linux/man-pages/man7/epoll.7.html.
	inode uint64
}

// A Wait is a call that ends with an event of a descriptor.
type Wait struct {
	Members []Member
	Read    bool          // it is a read of its one member
	Timeout time.Duration // it ends after this time in any case; negative: never
}

// inputEvents are those by which poll and epoll ask for input: POLLIN and POLLRDNORM.
const inputEvents = unix.POLLIN | 0x40

// maxMembers is the largest set that is examined.
const maxMembers = 4096

// WaitsFor returns the wait that the thread is blocked in, or ErrNoWait.
func (t Thread) WaitsFor() (Wait, error) {
	c, err := t.BlockedIn()
	if err != nil {
		return Wait{}, err
	}
	return t.WaitOf(c)
}

// WaitOf returns the wait of the thread, which is blocked in c, or ErrNoWait. It names the files
// that the thread waits for, not the epoll sets that they are in.
func (t Thread) WaitOf(c Call) (w Wait, err error) {
	if w, err = t.argumentsOf(c); err == nil && !w.Read {
		w.Members, err = t.flatten(w.Members, 0)
	}
	return w, err
}

// argumentsOf returns the wait that the arguments of c describe, or ErrNoWait.
func (t Thread) argumentsOf(c Call) (w Wait, err error) {
	w.Timeout = -1
	switch c.number {
	case unix.SYS_READ, unix.SYS_READV:
		w.Read = true
		w.Members = []Member{{FD: int(int32(c.args[0])), Input: true}}
	case unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG, unix.SYS_ACCEPT, unix.SYS_ACCEPT4:
		w.Members = []Member{{FD: int(int32(c.args[0])), Input: true}}
	case unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_CONNECT:
		w.Members = []Member{{FD: int(int32(c.args[0]))}}
	case sysPoll:
		w.Timeout = milliseconds(c.args[2])
		w.Members, err = t.pollMembers(c.args[0], c.args[1])
	case unix.SYS_PPOLL:
		if w.Timeout, err = t.timespec(c.args[2], time.Nanosecond); err == nil {
			w.Members, err = t.pollMembers(c.args[0], c.args[1])
		}
	case sysSelect, unix.SYS_PSELECT6:
		unit := time.Nanosecond
		if c.number == sysSelect {
			unit = time.Microsecond
		}
		if w.Timeout, err = t.timespec(c.args[4], unit); err == nil {
			w.Members, err = t.selectMembers(int(int32(c.args[0])), [3]uint64(c.args[1:4]))
		}
	case sysEpollWait, unix.SYS_EPOLL_PWAIT:
		w.Timeout = milliseconds(c.args[3])
		w.Members, err = t.epollMembers(int(int32(c.args[0])))
	case unix.SYS_EPOLL_PWAIT2:
		if w.Timeout, err = t.timespec(c.args[3], time.Nanosecond); err == nil {
			w.Members, err = t.epollMembers(int(int32(c.args[0])))
		}
	default:
		err = ErrNoWait
	}
	return w, err
}

// Parked reports whether the thread waits for its own program or a signal.
func (c Call) Parked() bool {
	switch c.number {
	case unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, sysFutexWait, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, sysPause:
		return true
	}
	return false
}

// Timed reports whether the thread waits in a futex for a limited time.
func (c Call) Timed() bool { return c.number == unix.SYS_FUTEX && c.args[3] != 0 }

// sysFutexWait is the number of futex_wait on every architecture.
const sysFutexWait = 455

// Sleeps reports whether the thread waits for a time.
func (c Call) Sleeps() bool {
	return c.number == unix.SYS_NANOSLEEP || c.number == unix.SYS_CLOCK_NANOSLEEP
}

// AwaitsChild reports whether the thread waits for a child.
func (c Call) AwaitsChild() bool { return c.number == unix.SYS_WAIT4 || c.number == unix.SYS_WAITID }

// sleepsUntil reports whether c, a sleep, names its end and not its duration.
func (c Call) sleepsUntil() bool {
	return c.number == unix.SYS_CLOCK_NANOSLEEP && c.args[1]&unix.TIMER_ABSTIME != 0
}

// SleepLeft returns how long the thread, which sleeps in c, will do so, or how long it meant to.
func (t Thread) SleepLeft(c Call) (time.Duration, error) {
	if c.number == unix.SYS_NANOSLEEP {
		return t.timespec(c.args[0], time.Nanosecond)
	}
	until, err := t.timespec(c.args[2], time.Nanosecond)
	if err != nil || !c.sleepsUntil() {
		return until, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(int32(c.args[0]), &now); err != nil {
		return 0, ErrNoWait
	}
	return until - time.Duration(now.Nano()), nil
}

// TimerDue returns in what time a timer that the thread has as a descriptor will expire, and the
// longest time if it is not set.
func (t Thread) TimerDue(fd int) (time.Duration, error) {
	var buf [512]byte
	b, err := procfs.ReadStart(t.file("fdinfo/")+strconv.Itoa(fd), buf[:])
	if err != nil {
		return 0, err
	}
	left, err := timerField(b, "it_value: (")
	interval, intervalErr := timerField(b, "it_interval: (")
	switch {
	case err != nil || intervalErr != nil:
		return 0, ErrNoWait
	// The timer has expired just now.
	case !bytes.Contains(b, []byte("ticks: 0\n")) || left == 0 && interval > 0:
		return 0, nil
	case left == 0:
		return math.MaxInt64, nil
	}
	return left, nil
}

// Watches reports whether files are watched by a descriptor of inotify that the thread has.
func (t Thread) Watches(fd int) (bool, error) {
	var buf [512]byte
	b, err := procfs.ReadStart(t.file("fdinfo/")+strconv.Itoa(fd), buf[:])
	return bytes.Contains(b, []byte("inotify wd:")), err // one line for each file that is watched
}

// timerField reads a time from the description of a timer, such as "it_value: (0, 49406829)".
func timerField(b []byte, name string) (time.Duration, error) {
	_, value, _ := strings.Cut(string(b), name)
	value, _, _ = strings.Cut(value, ")")
	seconds, nanoseconds, _ := strings.Cut(value, ", ")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(nanoseconds, 10, 64)
	return time.Duration(min(s, 1<<31))*time.Second + time.Duration(ns), err
}

func milliseconds(arg uint64) time.Duration { return time.Duration(int32(arg)) * time.Millisecond }

// timespec reads a timeout from the memory of the thread's process: seconds, followed by a number
// of units. It returns -1 if the address is 0, which means no timeout.
func (t Thread) timespec(address uint64, unit time.Duration) (time.Duration, error) {
	if address == 0 {
		return -1, nil
	}
	var b [16]byte
	if err := t.peek(address, b[:]); err != nil {
		return 0, err
	}
	seconds := min(binary.NativeEndian.Uint64(b[:8]), 1<<31)
	return time.Duration(seconds)*time.Second + time.Duration(binary.NativeEndian.Uint64(b[8:]))*unit, nil
}

// pollMembers reads the set of a poll.
func (t Thread) pollMembers(address, n uint64) ([]Member, error) {
	if n > maxMembers {
		return nil, ErrNoWait
	}
	b := make([]byte, 8*n)
	if err := t.peek(address, b); err != nil {
		return nil, err
	}
	set := make([]Member, 0, n)
	for ; len(b) > 0; b = b[8:] {
		fd := int32(binary.NativeEndian.Uint32(b))
		events := binary.NativeEndian.Uint16(b[4:])
		if fd >= 0 { // poll skips others
			set = append(set, Member{FD: int(fd), Input: events&inputEvents != 0})
		}
	}
	return set, nil
}

// selectMembers reads the three sets of a select.
func (t Thread) selectMembers(n int, addresses [3]uint64) ([]Member, error) {
	if n < 0 || n > maxMembers {
		return nil, ErrNoWait
	}
	var set []Member
	for i, address := range addresses {
		if address == 0 {
			continue
		}
		b := make([]byte, (n+63)/64*8)
		if err := t.peek(address, b); err != nil {
			return nil, err
		}
		for fd := range n {
			word := binary.NativeEndian.Uint64(b[fd/64*8:])
			if word>>(fd%64)&1 == 1 {
				set = append(set, Member{FD: fd, Input: i == 0})
			}
		}
	}
	return set, nil
}

// epollMembers reads the set of an epoll.
func (t Thread) epollMembers(epoll int) ([]Member, error) {
	const most = maxMembers * 128 // bytes
	b, err := procfs.ReadAtMost(t.file("fdinfo/")+strconv.Itoa(epoll), most)
	if err != nil {
		return nil, err
	}
	if len(b) == most { // there may be more
		return nil, ErrNoWait
	}
	var set []Member
	for line := range bytes.Lines(b) { // "tfd:        5 events:       19 data: …  pos:0 ino:5 sdev:1a"
		if m, ok := parseMember(line); ok {
			set = append(set, m)
		}
	}
	return set, nil
}

func parseMember(line []byte) (m Member, ok bool) {
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
	m.FD = int(field("", 10))
	m.Input = field("events:", 16)&inputEvents != 0
	m.inode = field("ino:", 16)
	return m, true
}

// peek fills b from the memory of the thread's process. It asks by the thread: the first one of the
// process has no memory once it has ended.
func (t Thread) peek(address uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: unsafe.SliceData(b)}}
	local[0].SetLen(len(b))
	n, err := procfs.ReadMemory(t.TID, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}})
	if err == unix.EFAULT || err == nil && n < len(b) {
		return ErrNoWait
	}
	return err
}
