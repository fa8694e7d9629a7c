package waiting

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/procfs"
	"asyncrepl/internal/sockdiag"
)

// This file finds the other ends of pipes and sockets, and the processes of the job that hold them.

// A holder is a process of the job that has a pipe or a socket open.
type holder struct {
	pid           int
	reads, writes bool
}

// holders are those of all pipes and sockets of the job, by the link that /proc shows.
type holders struct {
	of     map[string][]holder
	hidden bool // some process hides its open files, so it may hold any end
}

// others returns the processes that hold link in a way that other accepts.
func (hs *holders) others(link string, other func(holder) bool) (pids []int) {
	for _, h := range hs.of[link] {
		if other(h) {
			pids = append(pids, h.pid)
		}
	}
	return slices.Compact(pids) // they are in the order of processes
}

// readHolders reads the open files of all processes of the job.
func (p *probe) readHolders() (*holders, error) {
	hs := &holders{of: make(map[string][]holder)}
	for _, pid := range p.pids {
		if err := hs.read(pid); hidden(err) {
			if s, err := procfs.Inspect(pid); !errors.Is(err, procfs.ErrGone) && !s.Ended() {
				hs.hidden = true
			}
		} else if err != nil {
			return nil, err
		}
	}
	return hs, nil
}

// read adds the pipes and sockets of one process. All of its threads have the same, except that
// those that have ended show none.
func (hs *holders) read(pid int) error {
	t := thread{pid: pid, tid: pid}
	fds, err := procfs.Descriptors(pid, pid)
	if len(fds) == 0 {
		tids, threadsErr := procfs.Threads(pid)
		if threadsErr != nil {
			return threadsErr
		}
		for _, t.tid = range tids {
			if fds, err = procfs.Descriptors(pid, t.tid); len(fds) > 0 {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	for _, fd := range fds {
		link, err := t.linkOf(member{fd: fd})
		if err != nil {
			return err
		}
		if !strings.HasPrefix(link, "pipe:") && !strings.HasPrefix(link, "socket:") {
			continue
		}
		h := holder{pid: pid}
		if h.reads, h.writes, err = t.access(fd); err != nil {
			return err
		}
		hs.of[link] = append(hs.of[link], h)
	}
	return nil
}

// access returns how a descriptor was opened, by the permissions that /proc shows of its link. It
// returns false, false if the descriptor has been closed.
func (t thread) access(fd int) (reads, writes bool, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(t.descriptor(fd), &st); err != nil {
		return false, false, unlessHidden(err)
	}
	return st.Mode&unix.S_IRUSR != 0, st.Mode&unix.S_IWUSR != 0, nil
}

// peers are the TCP sockets that are connected or listen, as far as they have been read, of one
// network namespace.
type peers struct {
	sockets  []sockdiag.Socket
	families int // read of families
}

// families are the address families of TCP. A connection over IPv4 can have a socket for IPv6 at one
// end.
var families = []struct {
	number byte
	table  string
}{{unix.AF_INET, "net/tcp"}, {unix.AF_INET6, "net/tcp6"}}

// peer returns the inode of the other end of a socket that the process pid has open, or 0 if there
// is none that can be found. It also says what the process waits for if the other end is outside the
// job.
func (e *ends) peer(pid int, inode uint32) (peer uint32, outside string, err error) {
	err = procfs.WithReserve(func() error {
		peer, err = sockdiag.UnixPeer(inode)
		return err
	})
	if err == nil {
		return peer, "waits for a Unix socket", nil
	}
	if _, refused := err.(unix.Errno); !refused && !hidden(err) { // refused: it is no Unix socket, or in another namespace
		return 0, "", err
	}
	namespace, err := netNamespace(pid)
	if err != nil {
		return 0, "waits for a socket", unlessHidden(err)
	}
	if e.tcp[namespace] == nil {
		if e.tcp == nil {
			e.tcp = make(map[string]*peers)
		}
		e.tcp[namespace] = new(peers)
	}
	return e.tcp[namespace].of(inode, pid, namespace)
}

// of is ends.peer for a TCP socket. It reads no more families than it needs.
func (ps *peers) of(inode uint32, pid int, namespace string) (peer uint32, outside string, err error) {
	for {
		i := slices.IndexFunc(ps.sockets, func(s sockdiag.Socket) bool { return s.Inode == inode })
		outside = "waits for a socket"
		if i >= 0 {
			own := ps.sockets[i]
			if own.State == sockdiag.Listening {
				return 0, "listens on " + own.Local.String(), nil
			}
			outside = "waits for a connection to " + own.Remote.String()
			other := slices.IndexFunc(ps.sockets, func(s sockdiag.Socket) bool { return s.Local == own.Remote && s.Remote == own.Local })
			if other >= 0 && ps.sockets[other].Unsent > 0 { // it may be on its way
				return 0, outside, errMoved
			}
			if other >= 0 {
				return ps.sockets[other].Inode, outside, nil
			}
		}
		if ps.families == len(families) {
			return 0, outside, nil
		}
		if err := ps.read(pid, namespace); err != nil {
			return 0, "", err
		}
	}
}

// netNamespace returns the name of the network namespace that a process is in.
func netNamespace(pid int) (string, error) {
	var buf [64]byte
	n, err := unix.Readlink("/proc/"+strconv.Itoa(pid)+"/ns/net", buf[:])
	return string(buf[:max(n, 0)]), err
}

// read adds the sockets of the next family. The kernel lists those of our own namespace;
// sandboxes in which it does not, and other namespaces, have a table of all sockets.
func (ps *peers) read(pid int, namespace string) error {
	family := families[ps.families]
	ps.families++
	if own, err := netNamespace(unix.Getpid()); err == nil && own == namespace {
		var sockets []sockdiag.Socket
		err := procfs.WithReserve(func() (err error) {
			sockets, err = sockdiag.TCP(family.number, sockdiag.Established, sockdiag.Listening)
			return err
		})
		if err == nil {
			ps.sockets = append(ps.sockets, sockets...)
			return nil
		}
		if _, refused := err.(unix.Errno); !refused && !hidden(err) {
			return err
		}
	}
	const most = 8 << 20
	b, err := procfs.ReadAtMost("/proc/"+strconv.Itoa(pid)+"/"+family.table, most)
	for line := range strings.Lines(string(b)) {
		if s, ok := sockdiag.ParseTable(line); ok && (s.State == sockdiag.Established || s.State == sockdiag.Listening) {
			ps.sockets = append(ps.sockets, s)
		}
	}
	return unlessHidden(err)
}
