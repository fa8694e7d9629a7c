package tty

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// passingTime is the time after which a program that asks for input no longer does so in passing. One that lets less go
// by before it does something else (shows how far it is, say, and looks for a key meanwhile) goes on without input.
const passingTime = time.Second

// A process is one that waits for the terminal, with those that it may have pipes with.
type process struct {
	stat
	pid   int
	procs []int // of the whole job
}

// awaits tells whether input of the terminal is among what the members stand for.
func (p *PTY) awaits(q process, tid int, members []member, depth int) bool {
	return slices.ContainsFunc(members, func(m member) bool {
		return m.input && (p.isAt(q.pid, tid, m, q.stat) ||
			p.awaits(q, tid, nested(q.pid, tid, m, depth), depth+1))
	})
}

// live tells whether something is among the members that others may bring about: a socket, another process's pipe,
// whatever isn't known. A program's own timers, events and pipes are not, nor is the terminal.
func (p *PTY) live(q process, tid int, members []member, depth int) bool {
	return slices.ContainsFunc(members, func(m member) bool {
		if p.isAt(q.pid, tid, m, q.stat) {
			return false
		}
		what := linkOf(q.pid, tid, m)
		kind, inode, _ := strings.Cut(what, ":")
		switch {
		case what == epoll && depth < maxDepth:
			return p.live(q, tid, nested(q.pid, tid, m, depth), depth+1)
		case slices.Contains(own, what):
			return false
		case kind == "pipe":
			return !q.alone(what, true)
		case kind == "socket":
			return !q.pairedWithItself(inode)
		}
		return true
	})
}

const (
	epoll    = "anon_inode:[eventpoll]"
	maxDepth = 4 // of epoll sets in epoll sets; the kernel allows five
)

// nested is the set that a member stands for; none if it isn't an epoll set.
func nested(pid, tid int, m member, depth int) []member {
	if depth >= maxDepth || linkOf(pid, tid, m) != epoll {
		return nil
	}
	set, ok := enrolled(pid, tid, m.fd)
	if !ok {
		return []member{{fd: -1}} // which is nothing that is known
	}
	return set
}

// own are the descriptors by which a program tells itself something.
var own = []string{"anon_inode:[eventfd]", "anon_inode:[timerfd]", "anon_inode:[signalfd]", "anon_inode:inotify"}

// linkOf is what /proc shows a descriptor to be; empty if it is not what its epoll set holds.
func linkOf(pid, tid int, m member) string {
	path := taskFile(pid, tid, "fd/") + strconv.Itoa(m.fd)
	if m.inode != 0 {
		var st unix.Stat_t
		if scarce(unix.Stat(path, &st)) || st.Ino != m.inode {
			return ""
		}
	}
	var buf [128]byte
	n, err := unix.Readlink(path, buf[:])
	if scarce(err) {
		return ""
	}
	return string(buf[:n])
}

// alone tells whether q has the file that is shown as what open (where write is asked for: to be written), and no other
// of the job's processes has.
func (q process) alone(what string, write bool) bool {
	has, _ := holds(q.pid, what, write)
	if !has {
		return false
	}
	for _, pid := range q.procs {
		if pid == q.pid {
			continue
		}
		if other, known := holds(pid, what, write); other || !known {
			return false
		}
	}
	return true
}

// holds tells whether a process has a file open, and whether its files can be seen at all.
func holds(pid int, what string, write bool) (has, known bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	fds, ok := numbers(dir + "/fd")
	for _, fd := range fds {
		if linkOf(pid, pid, member{fd: fd}) != what {
			continue
		}
		if !write || writes(pid, fd) {
			return true, true
		}
	}
	return false, ok || unix.Access(dir, unix.F_OK) == unix.ENOENT
}

// writes tells whether a descriptor was opened to be written.
func writes(pid, fd int) bool {
	var buf [256]byte
	_, after, _ := strings.Cut(string(readFile(taskFile(pid, pid, "fdinfo/")+strconv.Itoa(fd), buf[:])), "flags:")
	octal, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
	flags, err := strconv.ParseUint(octal, 8, 64)
	return err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY
}

// pairedWithItself tells whether a socket, shown as "[inode]", is one end of a pair of which q has the other and nobody
// else has: the pipe by which an event loop wakes itself.
func (q process) pairedWithItself(inode string) bool {
	n, err := strconv.ParseUint(strings.Trim(inode, "[]"), 10, 32)
	if err != nil {
		return false
	}
	peer, ok := peerOf(uint32(n))
	return ok && q.alone("socket:["+strconv.FormatUint(uint64(peer), 10)+"]", false)
}

// peerOf asks the kernel for the other end of a Unix socket. It is told of those in our network namespace only.
func peerOf(inode uint32) (peer uint32, ok bool) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if scarce(err) {
		return 0, false
	}
	defer unix.Close(fd)
	const (
		byFamily = 20 // SOCK_DIAG_BY_FAMILY
		showPeer = 4  // UDIAG_SHOW_PEER
		attrPeer = 2  // UNIX_DIAG_PEER
		header   = unix.SizeofNlMsghdr
	)
	e := binary.NativeEndian
	req := make([]byte, header+24) // struct unix_diag_req
	e.PutUint32(req, uint32(len(req)))
	e.PutUint16(req[4:], byFamily)
	e.PutUint16(req[6:], unix.NLM_F_REQUEST)
	req[header] = unix.AF_UNIX
	e.PutUint32(req[header+4:], 0xffffffff) // in any state
	e.PutUint32(req[header+8:], inode)
	e.PutUint32(req[header+12:], showPeer)
	e.PutUint64(req[header+16:], 0xffffffffffffffff) // no cookie
	if scarce(unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})) {
		return 0, false
	}
	var buf [1024]byte // the answer is there when the request has been sent
	n, _, err := unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT)
	if err != nil || n < header+16 || e.Uint16(buf[4:]) != byFamily {
		return 0, false
	}
	for b := buf[header+16 : n]; len(b) >= 4; { // behind struct unix_diag_msg
		size := int(e.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		if e.Uint16(b[2:]) == attrPeer && size >= 8 {
			return e.Uint32(b[4:]), true
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return 0, false
}

// company tells whether other threads of q than tid keep the program going without input. Beside a thread that is
// blocked in a read only those count that wait for what is live: it won't be woken by them. One that waits for other
// things as well may be, by any that is not idle.
func (p *PTY) company(q process, tid int, read bool) bool {
	for _, other := range threads(q.pid) {
		if other == tid {
			continue
		}
		c, blocked := blockedIn(q.pid, other)
		if !blocked {
			if !read {
				return true
			}
			continue
		}
		w, ok := c.waits(q.pid, other)
		switch {
		case ok:
			if p.live(q, other, w.members, 0) {
				return true
			}
		case slices.Contains(idle, c.number):
		case !read, slices.Contains(receiving, c.number):
			return true
		}
	}
	return false
}

// idle are the calls in which a thread waits for its own program, a signal or a time.
var idle = []int{
	unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, 455, // futex_wait
	unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, sysPause,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP,
}

// receiving are the calls in which a thread waits for a peer.
var receiving = []int{
	unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT,
}

// numbers lists the names in a directory of /proc that are numbers; false if it can't be read.
func numbers(dir string) (all []int, ok bool) {
	fd, ok := openFile(dir, unix.O_DIRECTORY)
	if !ok {
		return nil, false
	}
	defer unix.Close(fd)
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if n <= 0 || err != nil {
			return all, !scarce(err)
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if i, err := strconv.Atoi(filepath.Base(name)); err == nil {
				all = append(all, i)
			}
		}
	}
}
