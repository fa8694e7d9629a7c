package threads

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/sockdiag"
)

// Sockets finds the other ends of sockets. It reads the kernel's lists of TCP sockets at most once,
// so it is for one scan. The zero Sockets is ready to use.
type Sockets struct {
	tcp map[string]*peers // the key is the network namespace
}

// peers are the TCP sockets that are connected or listen, as far as they have been read, of one
// network namespace.
type peers struct {
	sockets  []sockdiag.Socket
	families int // how many of families were read
}

// families are the address families of TCP. A connection over IPv4 can have a socket for IPv6 at
// one end.
var families = []struct {
	number byte
	table  string
}{{unix.AF_INET, "net/tcp"}, {unix.AF_INET6, "net/tcp6"}}

// Peer returns the inode of the other end of a socket that the process pid has open, or 0 if it
// can't be found. outside says what the process waits for if the other end is outside the job, in
// words that follow its name. It is empty for a Unix socket that listens where no other user can
// connect: by such a socket an editor or a multiplexer is controlled, and it serves nothing.
func (s *Sockets) Peer(pid int, inode uint32) (peer uint32, outside string, err error) {
	local, err := unixSocket(inode)
	switch {
	case err != nil:
	case local.State == sockdiag.Listening && private(pid, local.Path):
		return 0, "", nil
	default:
		return local.Peer, "waits for a Unix socket", nil
	}
	// If the kernel refused, it is no Unix socket, or in another namespace.
	if _, refused := err.(unix.Errno); !refused && !Hidden(err) {
		return 0, "", err
	}
	namespace, err := netNamespace(pid)
	if err != nil {
		return 0, "waits for a socket", UnlessHidden(err)
	}
	if s.tcp[namespace] == nil {
		if s.tcp == nil {
			s.tcp = make(map[string]*peers)
		}
		s.tcp[namespace] = new(peers)
	}
	return s.tcp[namespace].of(inode, pid, namespace)
}

// unixSocket returns the Unix socket with an inode.
func unixSocket(inode uint32) (s sockdiag.UnixSocket, err error) {
	err = procfs.WithReserve(func() error {
		s, err = sockdiag.Unix(inode)
		return err
	})
	return s, err
}

// UnixPeer returns the inode of the other end of a Unix socket, 0 if that has not been accepted. It
// reports false if the socket is not one that is connected, or could not be read.
func UnixPeer(inode uint32) (peer uint32, connected bool) {
	s, err := unixSocket(inode)
	return s.Peer, err == nil && s.State == sockdiag.Established
}

// private reports whether the directory of a file that the process pid has named is closed to other
// users than its owner.
func private(pid int, file string) bool {
	var st unix.Stat_t
	return file != "" && unix.Stat("/proc/"+strconv.Itoa(pid)+"/root"+path.Dir(file), &st) == nil && st.Mode&0o077 == 0
}

// of is Sockets.Peer for a TCP socket. It reads no more families than it needs.
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
				return 0, outside, ErrMoved
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

// read adds the sockets of the next family. The kernel lists the sockets of our own namespace;
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
		if _, refused := err.(unix.Errno); !refused && !Hidden(err) {
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
	return UnlessHidden(err)
}
