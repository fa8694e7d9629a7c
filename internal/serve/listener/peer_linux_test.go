package listener

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

const nobody = 65534

// as runs f as another user. Only the thread of f changes its user, and it ends with f.
func as(t *testing.T, uid int, f func()) {
	t.Helper()
	needtest.Root(t, "become another user")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); err != 0 {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// A pair is both ends of a connection.
type pair struct{ client, server net.Conn }

// connect makes a connection to address, which can be another one of l's.
func connect(t *testing.T, l net.Listener, address string) pair {
	t.Helper()
	var p pair
	var err error
	if p.client, err = dial(l.Addr().Network(), address); err == nil {
		t.Cleanup(func() { p.client.Close() })
		p.server, err = l.Accept()
	}
	if err != nil {
		t.Error(err) // not Fatal: this may be no goroutine of the test
		runtime.Goexit()
	}
	t.Cleanup(func() { p.server.Close() })
	return p
}

// dial dials as package net does, except that an IPv4 address within IPv6 gets a socket for IPv6, as
// in Java.
func dial(network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Is4In6() {
		return net.Dial(network, address)
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}

func TestPeerIsTheUserWhoHasConnected(t *testing.T) {
	for name, c := range map[string]struct{ network, listen, dial string }{
		"IPv4":                      {"tcp4", "127.0.0.1:0", "127.0.0.1"},
		"IPv6":                      {"tcp6", "[::1]:0", "::1"},
		"IPv4 to a socket for IPv6": {"tcp", "[::]:0", "127.0.0.1"},
		"IPv4 of a socket for IPv6": {"tcp4", "127.0.0.1:0", "::ffff:127.0.0.1"},
		"Unix socket":               {"unix", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.network == "unix" {
				c.listen = openSocket(t)
			}
			l := needtest.Listen(t, c.network, c.listen)
			to := l.Addr().String()
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				to = net.JoinHostPort(c.dial, strconv.Itoa(a.Port))
			} else if err := os.Chmod(to, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := OwnPeer(connect(t, l, to).server); err != nil {
				t.Errorf("our own connection: %v", err)
			}
			var p pair
			as(t, nobody, func() { p = connect(t, l, to) })
			if uid, err := user(p.server); err != nil || uid != nobody {
				t.Errorf("the user is %d, %v", uid, err)
			}
			if tcp, ok := p.server.(*net.TCPConn); ok {
				own, other := ends(tcp)
				if uid, err := searchUser(own, other); err != nil || uid != nobody {
					t.Errorf("the table says %d, %v", uid, err)
				}
			}
			if err := OwnPeer(tls.Server(p.server, &tls.Config{})); err == nil {
				t.Error("another user's connection is our own")
			}
		})
	}
}

// openSocket returns a path for a socket that every user can reach.
func openSocket(t *testing.T) string {
	dir := must.Get(os.MkdirTemp("/tmp", "peer"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o777))
	return filepath.Join(dir, "socket")
}

// ends returns the addresses of a server's connection as its peer sees them.
func ends(server *net.TCPConn) (own, other netip.AddrPort) {
	return plain(server.RemoteAddr().(*net.TCPAddr).AddrPort()), plain(server.LocalAddr().(*net.TCPAddr).AddrPort())
}

// A socket that its process has closed is nobody's: the kernel reports root as its user.
func TestClosedPeerIsOfNoUser(t *testing.T) {
	l := needtest.Listen(t, "tcp4", "127.0.0.1:0")
	p := connect(t, l, l.Addr().String())
	p.client.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	own, other := ends(p.server.(*net.TCPConn))
	p.client.Close()
	for name, find := range map[string]func(own, other netip.AddrPort) (int, error){"sock_diag": askForUser, "table": searchUser} {
		if uid, err := find(own, other); !errors.Is(err, errGone) {
			t.Errorf("%s: user %d, %v", name, uid, err)
		}
	}
	if err := OwnPeer(p.server); err == nil {
		t.Error("a closed connection is our own")
	}
}

// A socket that listens where the peer was connected from is not the peer.
func TestListenerAtThePeersAddressIsNotThePeer(t *testing.T) {
	l := needtest.Listen(t, "tcp4", "127.0.0.1:0")
	never := netip.MustParseAddrPort("127.0.0.1:1")
	at := l.Addr().(*net.TCPAddr).AddrPort()
	for name, find := range map[string]func(own, other netip.AddrPort) (int, error){"sock_diag": askForUser, "table": searchUser} {
		if uid, err := find(at, never); !errors.Is(err, errGone) {
			t.Errorf("%s: user %d, %v", name, uid, err)
		}
	}
}

func TestUsersOfLoopbackAreShown(t *testing.T) {
	if err := CanTellPeer(needtest.Listen(t, "tcp4", "127.0.0.1:0").Addr()); err != nil {
		t.Error(err)
	}
	if err := CanTellPeer(needtest.Listen(t, "tcp6", "[::1]:0").Addr()); err != nil {
		t.Error(err)
	}
	if err := CanTellPeer(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}); err == nil {
		t.Error("users of an address that is not ours are shown")
	}
}
