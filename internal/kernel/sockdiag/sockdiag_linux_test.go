package sockdiag_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/sockdiag"
	"asyncrepl/internal/test/must"
)

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l := must.Get(net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// A list has each socket, however many parts it comes in.
func TestListIsComplete(t *testing.T) {
	const n = 300
	want := make(map[netip.AddrPort]bool)
	for range n {
		want[listen(t).Addr().(*net.TCPAddr).AddrPort()] = true
	}
	sockets := must.Get(sockdiag.TCP(unix.AF_INET, sockdiag.Listening))(t)
	for _, s := range sockets {
		delete(want, s.Local)
	}
	if len(want) > 0 {
		t.Errorf("%d of %d sockets are missing among %d", len(want), n, len(sockets))
	}
}

// The kernel's refusal is a bare errno.
func TestRefusalIsAnErrno(t *testing.T) {
	if s, err := sockdiag.Unix(1); err != unix.ENOENT || s != (sockdiag.UnixSocket{}) {
		t.Errorf("got %+v, %v; want %v", s, err, unix.ENOENT)
	}
	l := listen(t).Addr().(*net.TCPAddr).AddrPort()
	if s, err := sockdiag.Connection(l, netip.MustParseAddrPort("127.0.0.1:1")); err != unix.ENOENT {
		t.Errorf("got %+v, %v; want %v", s, err, unix.ENOENT)
	}
}

// A connection is the same in the list, alone, and in the table of /proc, and so is what one end has
// sent and the other has not taken.
func TestConnectionIsShownAlike(t *testing.T) {
	l := listen(t)
	c := must.Get(net.Dial("tcp4", l.Addr().String()))(t)
	defer c.Close()
	local, remote := c.LocalAddr().(*net.TCPAddr).AddrPort(), l.Addr().(*net.TCPAddr).AddrPort()
	is := func(s sockdiag.Socket) bool { return s.Local == local && s.Remote == remote }
	alone, err := sockdiag.Connection(local, remote)
	if err != nil || !is(alone) || alone.State != sockdiag.Established || int(alone.User) != os.Getuid() || alone.Inode == 0 {
		t.Fatalf("alone: %+v, %v", alone, err)
	}
	list, err := sockdiag.TCP(unix.AF_INET, sockdiag.Established)
	if i := slices.IndexFunc(list, is); i < 0 || list[i] != alone {
		t.Errorf("%+v is not in the list %+v, %v", alone, list, err)
	}
	inTable(t, alone)
	stranded(t, c, local, remote)
}

// inTable fails if the table of /proc does not show the socket alike.
func inTable(t *testing.T, want sockdiag.Socket) {
	t.Helper()
	table := must.Get(os.ReadFile("/proc/self/net/tcp"))(t)
	for line := range strings.Lines(string(table)) {
		if s, ok := sockdiag.ParseTable(line); ok && s == want {
			return
		}
	}
	t.Errorf("the table lacks %+v:\n%s", want, table)
}

// stranded fills the connection until what is sent stays unsent.
func stranded(t *testing.T, c net.Conn, local, remote netip.AddrPort) {
	raw := must.Get(c.(syscall.Conn).SyscallConn())(t)
	raw.Control(func(fd uintptr) {
		var err error
		for b := make([]byte, 1<<20); err == nil; {
			_, err = unix.Write(int(fd), b)
		}
	})
	if s, err := sockdiag.Connection(local, remote); err != nil || s.Unsent == 0 {
		t.Errorf("a full connection is %+v, %v", s, err)
	}
}

// The two ends of a pair are each other's peers.
func TestUnixPeer(t *testing.T) {
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	var inodes [2]uint32
	for i, fd := range fds {
		defer unix.Close(fd)
		var st unix.Stat_t
		must.Do(t, unix.Fstat(fd, &st))
		inodes[i] = uint32(st.Ino)
	}
	for i := range inodes {
		if s, err := sockdiag.Unix(inodes[i]); err != nil || s != (sockdiag.UnixSocket{State: sockdiag.Established, Peer: inodes[1-i]}) {
			t.Errorf("%d is %+v, %v; its peer is %d", inodes[i], s, err, inodes[1-i])
		}
	}
}

// A Unix socket that listens is shown with its path.
func TestUnixListens(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "socket"), "@async-repl-test-" + strconv.Itoa(os.Getpid())} {
		l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}))(t)
		defer l.Close()
		raw := must.Get(l.SyscallConn())(t)
		var st unix.Stat_t
		must.Do(t, raw.Control(func(fd uintptr) { must.Do(t, unix.Fstat(int(fd), &st)) }))
		want := sockdiag.UnixSocket{State: sockdiag.Listening}
		if filepath.IsAbs(name) {
			want.Path = name
		}
		if s, err := sockdiag.Unix(uint32(st.Ino)); err != nil || s != want {
			t.Errorf("%s is %+v, %v; want %+v", name, s, err, want)
		}
	}
}

func Example() {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	sockets, err := sockdiag.TCP(unix.AF_INET, sockdiag.Listening)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range sockets {
		if s.Local == l.Addr().(*net.TCPAddr).AddrPort() {
			fmt.Println("found")
		}
	}
	// Output: found
}
