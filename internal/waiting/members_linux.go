package waiting

import (
	"strconv"

	"golang.org/x/sys/unix"
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

// awaits reports whether the thread waits for input of the job's source.
func (p *probe) awaits(t thread, members []member) (bool, error) {
	for _, m := range members {
		if !m.input {
			continue
		}
		if is, err := p.isSource(t, m); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// isSource reports whether a member that the thread waits for is the job's source. The inode decides
// and not the path, which can be another terminal's in a container.
func (p *probe) isSource(t thread, m member) (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(t.descriptor(m.fd), &st); err != nil {
		return false, unlessHidden(err)
	}
	if m.inode != 0 && m.inode != st.Ino {
		return false, nil
	}
	return p.input.is(t, &st), nil
}

// epoll is the link of an epoll set.
const epoll = "anon_inode:[eventpoll]"

// linkOf returns the link by which /proc shows a descriptor, such as "pipe:[4711]". It is empty if
// /proc does not show it, or if the descriptor no longer is the file that its epoll set holds.
func (t thread) linkOf(m member) (string, error) {
	path := t.descriptor(m.fd)
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

// descriptor returns the path by which /proc shows one of the thread's descriptors.
func (t thread) descriptor(fd int) string { return t.file("fd/" + strconv.Itoa(fd)) }
