//go:build unix

package listener_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"asyncrepl/internal/serve/listener"
	"asyncrepl/internal/test/must"
)

// socket returns a path that is short enough for a socket.
func socket(t *testing.T) string {
	dir := must.Get(os.MkdirTemp("/tmp", "listener"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "socket")
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l := must.Get(listener.Listen(t.Context(), address))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// refused checks that listening at an address fails with an error that says want.
func refused(t *testing.T, address, want string) {
	t.Helper()
	if l, err := listener.Listen(t.Context(), address); err == nil {
		l.Close()
		t.Errorf("%s is listened at", address)
	} else if !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v; want %q", address, err, want)
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info := must.Get(os.Lstat(path))(t)
	return info.Mode()
}

// reach connects to l and checks that it accepts.
func reach(t *testing.T, l net.Listener) {
	t.Helper()
	c := must.Get(net.Dial(l.Addr().Network(), l.Addr().String()))(t)
	defer c.Close()
	server := must.Get(l.Accept())(t)
	server.Close()
}

func TestUnixSocketIsPrivateAndRemoved(t *testing.T) {
	old := syscall.Umask(0) // which must not matter
	defer syscall.Umask(old)
	path := socket(t)
	l := listen(t, "unix:"+path)
	if got := mode(t, path); got != fs.ModeSocket|0o600 {
		t.Errorf("the mode is %v", got)
	}
	reach(t, l)
	if !listener.Local(l) {
		t.Error("a Unix socket is not local")
	}
	l.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// A killed server leaves its socket. The next one replaces it.
func TestStaleSocketIsReplaced(t *testing.T) {
	path := socket(t)
	l := must.Get(net.Listen("unix", path))(t)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	refused(t, "unix:"+path, "a server that runs listens there")
	l.Close()
	reach(t, listen(t, "unix:"+path))
}

// Of many servers that start at once, exactly one gets the path, also if a killed one left it, and
// its socket stays.
func TestOneOfManyServersGetsThePath(t *testing.T) {
	path := socket(t)
	for range 20 {
		stale := must.Get(net.Listen("unix", path))(t)
		stale.(*net.UnixListener).SetUnlinkOnClose(false)
		stale.Close()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var got []net.Listener
		for range 8 {
			wg.Go(func() {
				l, err := listener.Listen(t.Context(), "unix:"+path)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					got = append(got, l)
				} else if !strings.Contains(err.Error(), "a server that runs listens there") {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Fatalf("%d servers listen", len(got))
		}
		reach(t, got[0])
		got[0].Close()
	}
}

// What is no socket, and what another server put at the path meanwhile, stays.
func TestOtherFilesStay(t *testing.T) {
	path := socket(t)
	for name, make := range map[string]func() error{
		"file":      func() error { return os.WriteFile(path, nil, 0o600) },
		"directory": func() error { return os.Mkdir(path, 0o700) },
		"link":      func() error { return os.Symlink(path+"2", path) },
		"FIFO":      func() error { return syscall.Mkfifo(path, 0o600) },
	} {
		if err := make(); err != nil {
			t.Fatal(name, err)
		}
		refused(t, "unix:"+path, "not a socket")
		if err := os.Remove(path); err != nil {
			t.Errorf("the %s is gone: %v", name, err)
		}
	}
	l := listen(t, "unix:"+path)
	os.Remove(path)
	other := listen(t, "unix:"+path)
	l.Close()
	reach(t, other)
}

func TestBadAddressIsRefused(t *testing.T) {
	path := socket(t)
	for _, c := range []struct{ address, want string }{
		{"unix:" + strings.Repeat("/long", 40), "has 107 bytes at most"},
		{"unix:relative", "is absolute"},
		{"unix:", "is absolute"},
		{"unix:@abstract", "is absolute"},
		{"unix:" + path + "/below", "no such file"},
		{"8000", "neither HOST:PORT nor unix:PATH"},
		{"", "neither HOST:PORT nor unix:PATH"},
		{"127.0.0.1:99999", "a port is a number from 0 to 65535"},
		{"127.0.0.1:http", "a port is a number from 0 to 65535"},
		{"192.0.2.1:0", "listening at 192.0.2.1:0: "}, // an address for documentation, which no machine has
		{"::1:8000", "neither HOST:PORT nor unix:PATH"},
		{"192.0.2.1:0", "assign requested address"},
	} {
		if strings.Contains(c.want, "107") && len(syscall.RawSockaddrUnix{}.Path) != 108 {
			c.want = "bytes at most"
		}
		refused(t, c.address, c.want)
	}
	longest := path + strings.Repeat("x", 107)
	reach(t, listen(t, "unix:"+longest[:len(syscall.RawSockaddrUnix{}.Path)-1]))
}

func TestPortInUseIsRefused(t *testing.T) {
	l := listen(t, "127.0.0.1:0")
	reach(t, l)
	refused(t, l.Addr().String(), "another program listens there: choose another port")
}

func TestLocal(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false, ":0": false, "[::]:0": false, "[::1]:0": true} {
		l, err := listener.Listen(t.Context(), address)
		if err != nil && strings.HasPrefix(address, "[") {
			continue // no IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		if ip := l.Addr().(*net.TCPAddr).IP; strings.HasPrefix(address, "0") && ip.To4() == nil {
			t.Errorf("%s is %v", address, ip)
		}
		if got := listener.Local(l); got != want {
			t.Errorf("%s at %v: got %v", address, l.Addr(), got)
		}
		l.Close()
	}
}

// A directory that another program keeps locked, as every user can who can read it, delays a start
// and does not keep a server from starting.
func TestLockedDirectory(t *testing.T) {
	t.Parallel()
	path := socket(t)
	d := must.Get(os.Open(filepath.Dir(path)))(t)
	defer d.Close()
	must.Do(t, syscall.Flock(int(d.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := listener.Listen(ctx, "unix:"+path); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that is cancelled: %v", err)
	}
	reach(t, listen(t, "unix:"+path))
}

func ExampleListen() {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("listener-%d", os.Getpid()))
	l, err := listener.Listen(context.Background(), "unix:"+path)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = listener.Listen(context.Background(), "unix:"+path)
	fmt.Println(strings.Contains(err.Error(), "a server that runs listens there"))
	l.Close()
	_, err = os.Stat(path)
	fmt.Println(os.IsNotExist(err))
	// Output:
	// true
	// true
}
