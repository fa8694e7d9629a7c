//go:build unix

// Package listener opens the socket that a server is asked to listen at, and keeps the certificate
// that it shows.
//
// A Unix socket has mode 0600 and is removed when its listener closes. A socket that a killed
// server left is replaced; the socket of a running server is an error. Of several servers that start at
// the same path at once, one gets it.
//
// Begin with [Listen] and [Load]; [OwnPeer] says which user has connected. The package knows no
// protocol.
package listener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Listen listens at an address, HOST:PORT or unix:PATH. An empty host means every address of this
// machine.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(ctx, path)
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is neither HOST:PORT nor unix:PATH; a port is a number from 0 to 65535", address)
	}
	network := "tcp"
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() { // or 0.0.0.0 would include IPv6
		network = "tcp4"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if errors.Is(err, unix.EADDRINUSE) {
		err = errors.New("another program listens there: choose another port")
	}
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", address, err)
	}
	return l, nil
}

// Local reports whether only programs of this machine can connect to l.
func Local(l net.Listener) bool {
	at, ok := l.Addr().(*net.TCPAddr)
	return !ok || at.IP.IsLoopback()
}
