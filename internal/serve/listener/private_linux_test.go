package listener

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
)

// The file of a socket is private from its first instant: its mode is not changed afterwards.
func TestSocketIsPrivateFromTheFirstInstant(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := must.Get(os.MkdirTemp("/tmp", "listener"))(t)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	l := must.Get((&net.ListenConfig{Control: makePrivate}).Listen(t.Context(), "unix", path))(t)
	defer l.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}
