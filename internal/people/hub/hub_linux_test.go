package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// An engine of another user is left out, with a word.
func TestEngineOfAnotherUser(t *testing.T) {
	t.Parallel()
	needtest.Root(t, "listen as another user")
	w := newWorld(t)
	s := w.serve()
	j := s.asking("read x")
	w.finds(1) // the engine has made the directory
	fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(w.place, fmt.Sprintf("%024x-%d", 100, os.Getpid()))}))
	listens := make(chan error)
	go func() { // ends at once; its thread ends with it
		runtime.LockOSThread()
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); err != 0 {
			listens <- err
			return
		}
		listens <- unix.Listen(fd, 10) // the kernel notes the user
	}()
	must.Do(t, <-listens)
	w.open().sees([]*served{s}, j)
	w.says("is left out: user 65534 has connected")
}
