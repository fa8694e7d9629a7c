package tty

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// look finds the first of the processes procs with a thread that is blocked in a read of this terminal and whose read
// the next input will end. That is a process of the foreground group, or one that has this terminal open without being
// under its job control (`su -c`, `setsid -w`): no other may read, the kernel stops it.
func (p *PTY) look(procs []int) (Evidence, verdict) {
	best := busy
	foreground, _ := p.Foreground() // 0, no group, when nobody is left
	for _, pid := range procs {
		s, ok := readStat(pid, pid)
		if !ok || !p.mayRead(s, foreground) {
			continue
		}
		for _, tid := range threads(pid) {
			if fd, ok := readsFrom(pid, tid); !ok || !p.isAt(pid, tid, fd, s) {
				continue
			}
			kind, v := p.confirm(pid, tid)
			if v == waits {
				return Evidence{PID: pid, TID: tid, Program: s.program, Kind: kind}, waits
			}
			best = max(best, v)
		}
	}
	return Evidence{}, best
}

// mayRead tells whether the kernel would let the process read this terminal.
func (p *PTY) mayRead(s stat, foreground int) bool {
	return s.terminal != p.node.rdev || s.group == foreground
}

// confirm makes one moment of what is seen step by step: if the thread has not run from the first step to the last,
// then at the moment of the poll it was blocked in its read, nothing lay in the terminal that would end the read, and
// everything it had printed was out. Without it a program that was just answered, or one whose prompt is on its way,
// would be taken for one that waits.
func (p *PTY) confirm(pid, tid int) (kind string, v verdict) {
	c, ok := openThreadClock(pid, tid)
	if !ok {
		return "", passing
	}
	defer c.close()
	if _, ok := c.ran(); !ok {
		return "", passing
	}
	s, ok := readStat(pid, tid)
	if !ok || s.state == 'T' || s.state == 't' { // stopped inside its read: a background process, or one under a debugger
		return "", busy
	}
	if fd, ok := readsFrom(pid, tid); !ok || !p.isAt(pid, tid, fd, s) {
		return "", passing
	}
	foreground, _ := p.Foreground()
	mode, err := p.Mode()
	if err != nil || !p.mayRead(s, foreground) {
		return "", passing
	}
	if readable(p.slave) || readable(p.master) {
		return "", passing
	}
	if ran, ok := c.ran(); ran || !ok {
		return "", passing
	}
	return mode.kind(), waits
}

// readable tells whether a read of a terminal's end would find something. poll sees more than FIONREAD does: it first
// takes in what is still on its way from the other end, and it counts an end of file.
func readable(f *os.File) bool {
	found := true // if it can't be asked
	_ = control(f, func(fd int) error {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(set, 0)
		found = n != 0 || err != nil
		return nil
	})
	return found
}

// isAt tells whether the thread's descriptor fd is this terminal. The inode says so, not the path, which can be
// another terminal's in a container; /dev/tty is this one if it is the process's controlling terminal.
func (p *PTY) isAt(pid, tid, fd int, s stat) bool {
	var st unix.Stat_t
	if err := unix.Stat(taskFile(pid, tid, "fd/")+strconv.Itoa(fd), &st); err != nil {
		return false
	}
	if st.Rdev == controlling && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return s.terminal == p.node.rdev
	}
	return nodeOf(&st) == p.node
}

// controlling is the device number of /dev/tty.
var controlling = unix.Mkdev(5, 0)

// readsFrom tells which descriptor the thread is blocked reading from. A thread that was woken does not count, even if
// it has had no processor yet: the kernel shows it as running.
func readsFrom(pid, tid int) (fd int, ok bool) {
	var buf [256]byte
	b := readFile(taskFile(pid, tid, "syscall"), buf[:]) // "0 0x3 0x7ffd… …", "running", or "-1 …"
	number, rest, _ := bytes.Cut(b, []byte(" "))
	switch n, err := strconv.Atoi(string(number)); {
	case err != nil, n != unix.SYS_READ && n != unix.SYS_READV:
		return 0, false
	}
	arg, _, _ := bytes.Cut(rest, []byte(" "))
	x, err := strconv.ParseUint(string(arg), 0, 64)
	return int(int32(x)), err == nil
}

// stat is what /proc tells of a process or thread.
type stat struct {
	program  string
	state    byte
	group    int
	terminal uint64 // number of the controlling terminal, 0 for none
}

func readStat(pid, tid int) (stat, bool) {
	var buf [512]byte
	b := readFile(taskFile(pid, tid, "stat"), buf[:])
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')') // the name may hold both
	if open < 0 || end < open {
		return stat{}, false
	}
	f := bytes.SplitN(b[end+1:], []byte(" "), 7) // "", state, ppid, pgrp, session, tty_nr, rest
	if len(f) < 7 || len(f[1]) != 1 {
		return stat{}, false
	}
	group, err1 := strconv.Atoi(string(f[3]))
	terminal, err2 := strconv.ParseInt(string(f[5]), 10, 64)
	return stat{
		program:  string(b[open+1 : end]),
		state:    f[1][0],
		group:    group,
		terminal: uint64(uint32(terminal)), // printed as a signed number
	}, err1 == nil && err2 == nil
}

// threads lists the threads of a process; none if it is gone.
func threads(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	var st unix.Stat_t
	if unix.Stat(dir, &st) == nil && st.Nlink == 3 { // itself, its parent and one thread: no need to list
		return []int{pid}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if n <= 0 || err != nil {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	tids := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

func taskFile(pid, tid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid) + "/" + name
}

// readFile reads the start of a small file into buf: what fits; nothing if there is nothing to be read.
func readFile(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}
