package threads

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// maxDepth is how deep epoll sets in epoll sets are read; the kernel allows five.
const maxDepth = 4

// flatten replaces each epoll set among members by its own members, and theirs, so that only the
// files that the thread waits for remain. A set that can't be read or is nested too deep stays, as
// a member of unknown nature.
func (t Thread) flatten(members []Member, depth int) ([]Member, error) {
	var flat []Member
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
			set[i].Input = set[i].Input && m.Input
		}
		if set, err = t.flatten(set, depth+1); err != nil {
			return nil, err
		}
		flat = append(flat, set...)
	}
	return flat, nil
}

// setOf returns the members of m if it is an epoll set that can be read, otherwise nil.
func (t Thread) setOf(m Member) ([]Member, error) {
	if link, err := t.LinkOf(m); link != epollLink || err != nil {
		return nil, err
	}
	set, err := t.epollMembers(m.FD)
	if err == nil && set == nil {
		set = []Member{} // empty
	}
	return set, UnlessHidden(err)
}

// Links by which /proc shows descriptors without a file.
const (
	TimerLink   = "anon_inode:[timerfd]"
	ProcessLink = "anon_inode:[pidfd]"
	WatchLink   = "anon_inode:inotify"
	epollLink   = "anon_inode:[eventpoll]"
)

// LinkOf returns the link by which /proc shows a descriptor, such as "pipe:[4711]". It is empty if
// /proc does not show it, or if the descriptor no longer is the file that its epoll set holds.
func (t Thread) LinkOf(m Member) (string, error) {
	if m.inode != 0 {
		if st, err := t.Stat(m); st == nil || err != nil {
			return "", err
		}
	}
	var buf [128]byte
	n, err := unix.Readlink(t.descriptor(m.FD), buf[:])
	if err != nil {
		return "", UnlessHidden(err)
	}
	return string(buf[:n]), nil
}

// Stat returns what kind of file m is, or nil if /proc does not show it, or if the descriptor no
// longer is the file that its epoll set holds.
func (t Thread) Stat(m Member) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Stat(t.descriptor(m.FD), &st); err != nil {
		return nil, UnlessHidden(err)
	}
	if m.inode != 0 && m.inode != st.Ino {
		return nil, nil
	}
	return &st, nil
}

// descriptor returns the path by which /proc shows one of the thread's descriptors.
func (t Thread) descriptor(fd int) string { return t.file("fd/" + strconv.Itoa(fd)) }

// Access returns how a descriptor was opened, by the permissions that /proc shows of its link. It
// returns false, false if the descriptor has been closed.
func (t Thread) Access(fd int) (reads, writes bool, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(t.descriptor(fd), &st); err != nil {
		return false, false, UnlessHidden(err)
	}
	return st.Mode&unix.S_IRUSR != 0, st.Mode&unix.S_IWUSR != 0, nil
}

// Watched returns the inodes of the files in the epoll set that descriptor epoll is.
func (t Thread) Watched(epoll int) (inodes []uint64, err error) {
	set, err := t.epollMembers(epoll)
	for _, m := range set {
		inodes = append(inodes, m.inode)
	}
	return inodes, err
}
