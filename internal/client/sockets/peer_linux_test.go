package sockets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// A child of the test binary dials as asDialer says and prints the error.
const asDialer = "SOCKETS_TEST_DIAL"

func TestMain(m *testing.M) {
	if to := os.Getenv(asDialer); to != "" {
		os.Exit(dialer(to))
	}
	os.Exit(m.Run())
}

func dialer(path string) int {
	d, err := Open(path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	names, err := d.Names()
	if err != nil || len(names) != 1 {
		fmt.Println(names, err)
		return 1
	}
	_, w, err := d.Dial(context.Background(), names[0], Hello{Role: Person})
	fmt.Println(w.PID, err)
	return 0
}

func TestPeerInOtherNamespacesIsRefused(t *testing.T) {
	d := openDir(t)
	listen(t, d, identity, welcome)
	for name, c := range map[string]struct {
		flags uintptr
		want  string
	}{
		"none":    {0, fmt.Sprint(os.Getpid(), " <nil>")},
		"network": {syscall.CLONE_NEWNET, "from another container"},
		"mounts":  {syscall.CLONE_NEWNS, "from another container"},
		"pids":    {syscall.CLONE_NEWPID, "another container"},
		"user":    {syscall.CLONE_NEWUSER, "finding the namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), asDialer+"="+d.Path())
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.flags}
			if c.flags == syscall.CLONE_NEWUSER {
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			}
			out, err := cmd.CombinedOutput()
			if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
				t.Skip(err)
			}
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("the child says %q, %v; want %q", out, err, c.want)
			}
		})
	}
}

// A process that has been killed and is not reaped yet is in no other container.
func TestPeerThatHasEnded(t *testing.T) {
	cmd := exec.Command("true")
	must.Do(t, cmd.Start())
	polltest.Until(t, "its end", func() bool {
		p, err := procfs.Inspect(cmd.Process.Pid)
		return err == nil && p.Ended()
	})
	if spaces, err := namespaces(strconv.Itoa(cmd.Process.Pid)); !errors.Is(err, ErrGone) {
		t.Errorf("before it is reaped: %q, %v", spaces, err)
	}
	must.Do(t, cmd.Wait())
	if spaces, err := namespaces(strconv.Itoa(cmd.Process.Pid)); !errors.Is(err, ErrGone) {
		t.Errorf("afterwards: %q, %v", spaces, err)
	}
}

func TestPeerOfAnotherUserIsRefused(t *testing.T) {
	needtest.Root(t, "become another user")
	d := openDir(t)
	l := must.Get(d.Listen(identity))(t)
	defer l.Close()
	// The directory lets no other user in, so the dialer enters it as root, by the open descriptor.
	answer := make(chan string)
	go func() { // ends with its answer
		runtime.LockOSThread() // the thread ends with this goroutine
		defer close(answer)
		fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
		file := os.NewFile(uintptr(fd), "socket")
		defer file.Close()
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); err != 0 {
			t.Error(err)
			return
		}
		// Capabilities stay in the permitted set as long as the real user is root.
		caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&caps, &data[0]); err != nil {
			t.Error(err)
			return
		}
		data[0].Effective, data[1].Effective = data[0].Permitted, data[1].Permitted
		if err := unix.Capset(&caps, &data[0]); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: d.At(l.Name().String())}); err != nil {
			t.Error(err)
			return
		}
		buf := make([]byte, 1000)
		n, err := file.Read(buf)
		if err != nil {
			t.Error(err)
		}
		answer <- string(buf[:n])
	}()
	accepted := make(chan struct{})
	go func() { // ends when the listener closes
		defer close(accepted)
		if c, err := l.Accept(); err == nil {
			c.Close()
			t.Error("the connection was accepted")
		}
	}()
	if got := <-answer; !strings.HasPrefix(got, "refused: user 65534 has connected") {
		t.Errorf("the answer is %q", got)
	}
	l.Close()
	<-accepted
}
