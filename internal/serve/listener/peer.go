//go:build unix

package listener

// The kernel says which user has the other end of a local connection, never the peer: for a Unix
// socket by the connection itself, and for TCP by its table of sockets. The table says nothing about
// a socket that its process has closed, so a peer that sends something and closes at once is of no
// known user.

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// OwnPeer returns nil if the server's own user has the other end of a connection, which must be over
// loopback or a Unix socket.
func OwnPeer(c net.Conn) error {
	for {
		under, ok := c.(interface{ NetConn() net.Conn }) // a *tls.Conn has the method
		if !ok {
			break
		}
		c = under.NetConn()
	}
	uid, err := user(c)
	if err != nil {
		return fmt.Errorf("finding the user of %v: %w", c.RemoteAddr(), err)
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("user %d has connected, and this server is for user %d only", uid, os.Geteuid())
	}
	return nil
}

func user(c net.Conn) (uid int, err error) {
	switch c := c.(type) {
	case *net.UnixConn:
		return unixUser(c)
	case *net.TCPConn:
		return tcpUser(c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort())
	}
	return 0, fmt.Errorf("a %T has no user", c)
}

// CanTellPeer returns nil if this system shows the users of connections to an address. It tries that
// with a connection to another port there.
func CanTellPeer(at net.Addr) error {
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return nil
	}
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: tcp.IP, Zone: tcp.Zone})
	if err != nil {
		return err
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	return OwnPeer(c)
}

// errGone means that the kernel has no open socket that is the other end.
var errGone = errors.New("it has been closed")
