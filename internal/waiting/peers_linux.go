package waiting

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/procfs"
	"asyncrepl/internal/sockdiag"
)

// maxDepth is how deep epoll sets in epoll sets are read; the kernel allows five.
const maxDepth = 4

// flatten replaces each epoll set among members by its own members, and theirs, so that only the
// files that the thread waits for remain. A set that can't be read or is nested too deep stays, as
// a member of unknown nature.
func (t thread) flatten(members []member, depth int) ([]member, error) {
	var flat []member
	for _, m := range members {
		set, err := t.setOf(m)
		switch {
		case err != nil:
			return nil, err
		case set == nil || depth == maxDepth:
			flat = append(flat, m)
			continue
		}
		for i := range set {
			set[i].input = set[i].input && m.input
		}
		if set, err = t.flatten(set, depth+1); err != nil {
			return nil, err
		}
		flat = append(flat, set...)
	}
	return flat, nil
}

// setOf returns the members of m if it is an epoll set that can be read, otherwise nil.
func (t thread) setOf(m member) ([]member, error) {
	if link, err := t.linkOf(m); link != epoll || err != nil {
		return nil, err
	}
	set, err := t.epollMembers(m.fd)
	if err == nil && set == nil {
		set = []member{} // empty
	}
	return set, unlessHidden(err)
}

// awaits reports whether the thread waits for input of the terminal.
func (p *probe) awaits(t thread, members []member) (bool, error) {
	for _, m := range members {
		if !m.input {
			continue
		}
		if is, err := p.isTerminal(t, m); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// externallyWakeable reports whether another process can cause the event that one of the members
// waits for: the member is a socket, another process's pipe, or something unknown. It leaves out
// the program's own timers, events and pipes, and the terminal.
func (p *probe) externallyWakeable(t thread, members []member) (bool, error) {
	for _, m := range members {
		if is, err := p.isTerminal(t, m); err != nil {
			return false, err
		} else if is {
			continue
		}
		if wakes, err := p.wakes(t, m); wakes || err != nil {
			return wakes, err
		}
	}
	return false, nil
}

// wakes is externallyWakeable for one member that is not the terminal.
func (p *probe) wakes(t thread, m member) (bool, error) {
	link, err := t.linkOf(m)
	if err != nil {
		return false, err
	}
	kind, inode, _ := strings.Cut(link, ":")
	switch {
	case slices.Contains(internal, link):
		return false, nil
	case kind == "pipe":
		sole, err := p.soleHolder(t.pid, link, true)
		return !sole, err
	case kind == "socket":
		own, err := p.pairedWithItself(t.pid, inode)
		return !own, err
	}
	return true, nil
}

// epoll is the link of an epoll set.
const epoll = "anon_inode:[eventpoll]"

// internal are the descriptors by which a program notifies itself.
var internal = []string{"anon_inode:[eventfd]", "anon_inode:[timerfd]", "anon_inode:[signalfd]", "anon_inode:inotify"}

// linkOf returns the link by which /proc shows a descriptor, such as "pipe:[4711]". It is empty if
// /proc does not show it, or if the descriptor no longer is the file that its epoll set holds.
func (t thread) linkOf(m member) (string, error) {
	path := t.file("fd/" + strconv.Itoa(m.fd))
	if m.inode != 0 {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil || st.Ino != m.inode {
			return "", unlessHidden(err)
		}
	}
	var buf [128]byte
	n, err := unix.Readlink(path, buf[:])
	if err != nil {
		return "", unlessHidden(err)
	}
	return string(buf[:n]), nil
}

// soleHolder reports whether the process, and no other of the job, has the file that /proc shows as
// link open, for writing if write is set.
func (p *probe) soleHolder(process int, link string, write bool) (bool, error) {
	switch has, err := holds(process, link, write); {
	case hidden(err):
		return false, nil
	case err != nil || !has:
		return false, err
	}
	for _, pid := range p.pids {
		if pid == process {
			continue
		}
		switch has, err := holds(pid, link, write); {
		case errors.Is(err, procfs.ErrGone):
		case hidden(err): // it may have it open
			return false, nil
		case err != nil || has:
			return false, err
		}
	}
	return true, nil
}

// holds reports whether a process has a file open, for writing if write is set.
func holds(pid int, link string, write bool) (bool, error) {
	fds, err := procfs.Descriptors(pid)
	if err != nil {
		return false, err
	}
	t := thread{pid: pid, tid: pid}
	for _, fd := range fds {
		shown, err := t.linkOf(member{fd: fd})
		if err != nil {
			return false, err
		}
		if shown != link {
			continue
		}
		if !write {
			return true, nil
		}
		if writes, err := t.writes(fd); writes || err != nil {
			return writes, err
		}
	}
	return false, nil
}

// writes reports whether a descriptor was opened for writing, and reports true if /proc does not
// show it.
func (t thread) writes(fd int) (bool, error) {
	var buf [256]byte
	b, err := procfs.ReadStart(t.file("fdinfo/")+strconv.Itoa(fd), buf[:])
	if err != nil {
		return true, unlessHidden(err)
	}
	_, after, _ := strings.Cut(string(b), "flags:")
	octal, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
	flags, err := strconv.ParseUint(octal, 8, 64)
	return err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY, nil
}

// pairedWithItself reports whether a socket, shown as "[inode]", is one end of a pair of which the
// process has the other and no other process has: the pipe by which an event loop wakes itself.
func (p *probe) pairedWithItself(process int, inode string) (bool, error) {
	n, err := strconv.ParseUint(strings.Trim(inode, "[]"), 10, 32)
	if err != nil {
		return false, nil
	}
	peer, err := peerOf(uint32(n))
	if peer == 0 || err != nil {
		return false, err
	}
	return p.soleHolder(process, "socket:["+strconv.FormatUint(uint64(peer), 10)+"]", false)
}

// peerOf asks the kernel for the other end of a Unix socket. It is 0 if there is none, or if the
// socket is in another network namespace.
func peerOf(inode uint32) (peer uint32, err error) {
	const showPeer = 4             // UDIAG_SHOW_PEER
	request := make([]byte, 0, 24) // struct unix_diag_req
	request = append(request, unix.AF_UNIX, 0, 0, 0)
	for _, field := range []uint32{^uint32(0), inode, showPeer, ^uint32(0), ^uint32(0)} { // in any state; no cookie
		request = binary.NativeEndian.AppendUint32(request, field)
	}
	var answers [][]byte
	err = procfs.WithReserve(func() error {
		answers, err = sockdiag.Query(request, false)
		return err
	})
	if _, refused := err.(unix.Errno); refused || hidden(err) {
		return 0, nil
	}
	const fixed = 16 // struct unix_diag_msg, before the attributes
	if err != nil || len(answers) == 0 || len(answers[0]) < fixed {
		return 0, err
	}
	return peerAttribute(answers[0][fixed:]), nil
}

// peerAttribute returns the value of UNIX_DIAG_PEER among netlink attributes, 0 if it is not there.
func peerAttribute(b []byte) uint32 {
	const peer = 2
	for e := binary.NativeEndian; len(b) >= 4; {
		size := int(e.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		if e.Uint16(b[2:]) == peer && size >= 8 {
			return e.Uint32(b[4:])
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	return 0
}

// otherThreadsActive reports whether other threads than t keep the program running without input.
// If t is blocked in a read, only threads count that wait for an event that another process can
// cause, because nothing else wakes the read. If t waits for several things, every thread counts
// that is not idle, because it can wake t.
func (p *probe) otherThreadsActive(t thread, read bool) (bool, error) {
	tids, err := procfs.Threads(t.pid)
	if err != nil {
		return false, err
	}
	for _, tid := range tids {
		if tid == t.tid {
			continue
		}
		other := t
		other.tid = tid
		if active, err := p.active(other, read); active || err != nil {
			return active, err
		}
	}
	return false, nil
}

// active is otherThreadsActive for one other thread.
func (p *probe) active(other thread, read bool) (bool, error) {
	c, err := other.blockedIn()
	if err != nil {
		return !read, unlessHidden(err)
	}
	w, err := other.waitOf(c)
	switch {
	case err == nil:
		return p.externallyWakeable(other, w.members)
	case !hidden(err):
		return false, err
	case slices.Contains(idle, c.number):
		return false, nil
	}
	return !read || slices.Contains(receiving, c.number), nil
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
