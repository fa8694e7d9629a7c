package sockets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/serve/listener"
)

// At returns a path of a name in the directory, which can be used while the directory is open. It is
// short, however long the path of the directory is.
func (d *Dir) At(name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", d.file.Fd(), name) }

// ownPeer returns nil if the other end of a connection is a process of our user in our namespaces.
func ownPeer(c *net.UnixConn) error {
	if err := listener.OwnPeer(c); err != nil {
		return err
	}
	pid, err := peer(c)
	if err == nil && pid == 0 { // the kernel shows no pid of another namespace
		err = errors.New("it is in another container")
	}
	if err != nil {
		return fmt.Errorf("finding the process that has connected: %w", err)
	}
	if pid == os.Getpid() {
		return nil
	}
	theirs, err := namespaces(strconv.Itoa(pid))
	if err != nil {
		return fmt.Errorf("finding the namespaces of process %d: %w", pid, err)
	}
	ours, err := namespaces("self")
	if err == nil && !slices.Equal(ours, theirs) {
		err = fmt.Errorf("process %d has connected from another container: use the program in the same one", pid)
	}
	return err
}

// peer returns the pid of the process at the other end of a connection, or 0 if it is in another
// pid namespace.
func peer(c *net.UnixConn) (pid int, err error) {
	err = descriptor.Use(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			pid = int(cred.Pid)
		}
		return err
	})
	return pid, err
}

// namespaces returns the namespaces of a process that decide what its paths, users and addresses
// mean. The error is ErrGone if the process has ended: some have no name then, also while it waits to
// be reaped.
func namespaces(process string) ([]string, error) {
	var spaces []string
	for _, kind := range []string{"user", "mnt", "pid", "net"} {
		space, err := os.Readlink("/proc/" + process + "/ns/" + kind)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if _, known := os.Lstat("/proc/self/ns/" + kind); err != nil && known == nil {
			return nil, ErrGone
		}
		spaces = append(spaces, space) // empty: the kernel has no namespaces of this kind
	}
	return spaces, nil
}

// BootID returns a name for the time since the machine was started.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
