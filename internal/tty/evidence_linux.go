package tty

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// look finds the first of the processes procs with a thread that waits for input of this terminal and for nothing else
// that may come without it: in a read, or in a poll, select or epoll. That is a process of the foreground group, or one
// that has this terminal open without being under its job control (`su -c`, `setsid -w`): no other may read, the kernel
// stops it. Where one waits for live things as well, that is told if nobody else waits. A look that lacked descriptors or
// memory has not seen all, and comes to nothing yet.
func (p *PTY) look(procs []int) (Evidence, verdict) {
	before := shortages.Load()
	ev, v := p.search(procs)
	if shortages.Load() != before {
		return Evidence{}, passing
	}
	return ev, v
}

func (p *PTY) search(procs []int) (Evidence, verdict) {
	best := busy
	var known Evidence
	foreground, _ := p.Foreground() // 0, no group, when nobody is left
	for _, pid := range procs {
		s, ok := readStat(pid, pid)
		if !ok || !p.mayRead(s, foreground) {
			continue
		}
		q := process{stat: s, pid: pid, procs: procs}
		for _, tid := range threads(pid) {
			if !p.awaited(q, tid) {
				continue
			}
			kind, v := p.confirm(q, tid)
			ev := Evidence{PID: pid, TID: tid, Program: s.program, Kind: kind}
			if v == waits {
				return ev, waits
			}
			if v == accepts && best != accepts {
				known = ev
			}
			best = max(best, v)
		}
	}
	if best != accepts {
		known = Evidence{}
	}
	return known, best
}

// awaited tells whether the thread waits for this terminal, maybe beside other things.
func (p *PTY) awaited(q process, tid int) bool {
	c, ok := blockedIn(q.pid, tid)
	if !ok {
		return false
	}
	w, ok := c.waits(q.pid, tid)
	return ok && p.awaits(q, tid, w.members, 0)
}

// mayRead tells whether the kernel would let the process read this terminal.
func (p *PTY) mayRead(s stat, foreground int) bool {
	return s.terminal != p.node.rdev || s.group == foreground
}

// confirm makes one moment of what is seen step by step: if the thread has not run from the first step to the last,
// then at the moment of the poll it was blocked in its wait, nothing lay in the terminal that would end it, and
// everything it had printed was out. Without it a program that was just answered, or one whose prompt is on its way,
// would be taken for one that waits.
func (p *PTY) confirm(q process, tid int) (kind string, v verdict) {
	clk, ok := openThreadClock(q.pid, tid)
	if !ok {
		return "", passing
	}
	defer clk.close()
	if _, ok := clk.ran(); !ok {
		return "", passing
	}
	s, ok := readStat(q.pid, tid)
	if !ok || s.state == 'T' || s.state == 't' { // stopped inside its wait: a background process, or one under a debugger
		return "", busy
	}
	q.stat = s
	c, ok := blockedIn(q.pid, tid)
	if !ok {
		return "", passing
	}
	w, ok := c.waits(q.pid, tid)
	if !ok || !p.awaits(q, tid, w.members, 0) {
		return "", passing
	}
	alone := !p.live(q, tid, w.members, 0) && !p.company(q, tid, w.read)
	foreground, _ := p.Foreground()
	mode, err := p.Mode()
	if err != nil || !p.mayRead(s, foreground) {
		return "", passing
	}
	if readable(p.slave) || readable(p.master) {
		return "", passing
	}
	if ran, ok := clk.ran(); ran || !ok {
		return "", passing
	}
	if w.read && mode.limit > 0 {
		w.timeout = mode.limit
	}
	if !alone || w.timeout >= 0 && w.timeout < passingTime {
		return mode.kind(), accepts
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

// isAt tells whether what the thread waits for is this terminal. The inode says so, not the path, which can be
// another terminal's in a container; /dev/tty is this one if it is the process's controlling terminal.
func (p *PTY) isAt(pid, tid int, m member, s stat) bool {
	var st unix.Stat_t
	if scarce(unix.Stat(taskFile(pid, tid, "fd/")+strconv.Itoa(m.fd), &st)) || m.inode != 0 && m.inode != st.Ino {
		return false
	}
	if st.Rdev == controlling && st.Mode&unix.S_IFMT == unix.S_IFCHR {
		return s.terminal == p.node.rdev
	}
	return nodeOf(&st) == p.node
}

// controlling is the device number of /dev/tty.
var controlling = unix.Mkdev(5, 0)

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
	if !scarce(unix.Stat(dir, &st)) && st.Nlink == 3 { // itself, its parent and one thread: no need to list
		return []int{pid}
	}
	tids, _ := numbers(dir)
	return tids
}

func taskFile(pid, tid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid) + "/" + name
}

// readFile reads the start of a small file into buf: what fits; nothing if there is nothing to be read.
func readFile(path string, buf []byte) []byte {
	fd, ok := openFile(path, 0)
	if !ok {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if scarce(err) {
		return nil
	}
	return buf[:n]
}
