package sockets

import (
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/serve/listener"
)

// At returns the path of a name in the directory, which can be used while the directory is open.
func (d *Dir) At(name string) string { return filepath.Join(d.path, name) }

// ownPeer returns nil if the other end of a connection is a process of our user.
func ownPeer(c *net.UnixConn) error { return listener.OwnPeer(c) }

// This system does not document the option that shows the pid of a peer.
func peer(*net.UnixConn) (int, error) { return 0, nil }

// This system has no namespaces.
func namespaces(string) ([]string, error) { return nil, nil }

// BootID returns a name for the time since the machine was started.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }
