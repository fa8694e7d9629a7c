package listener

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The file of a socket is private from its first instant: its mode is not changed afterwards.
func TestSocketIsPrivateFromTheFirstInstant(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir, err := os.MkdirTemp("/tmp", "listener")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	l, err := (&net.ListenConfig{Control: makePrivate}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}
