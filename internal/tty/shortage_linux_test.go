package tty

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// exhaust leaves this process not one descriptor until the function it returns has been called, or the test's end.
func exhaust(t *testing.T) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var taken []int
	restore = func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		taken = nil
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	if f, err := os.Open("/"); err == nil {
		f.Close()
		t.Fatal("there is a descriptor")
	}
	return restore
}

// TestNoDescriptors: of a program that blocks while no descriptor is free nothing is said until there is one, and then
// that it waits. What was said before stands.
func TestNoDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p := start(t, []string{"bash", "-c", `read -u 3; read x`}, r)
	r.Close()
	procs := []int{p.cmd.Process.Pid}
	shown, err := os.Open(taskFile(procs[0], procs[0], "syscall"))
	if err != nil {
		t.Fatal(err)
	}
	defer shown.Close()
	reads := func(fd int) {
		t.Helper()
		waitFor(t, fmt.Sprintf("bash to read %d", fd), func() bool {
			b := make([]byte, 100)
			n, _ := shown.ReadAt(b, 0)
			return strings.HasPrefix(string(b[:n]), fmt.Sprintf("%d %#x ", unix.SYS_READ, fd))
		})
	}
	var looks atomic.Int64
	told := make(chan news, 100) // News must not block, and this test makes no more
	watch := &Watch{PTY: p.pty, Quiet: p.quiet,
		Tree: func() []int { looks.Add(1); return procs },
		News: func(ev Evidence, waiting bool) { told <- news{Evidence: ev, waiting: waiting} },
	}
	stop := watch.Start()
	defer func() { stop() }()
	reads(3)

	restore := exhaust(t)
	before := looks.Load()
	if _, err := w.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	reads(0)
	if ev, v := p.pty.look(procs); v != passing {
		t.Errorf("got %+v, verdict %d, want %d", ev, v, passing)
	}
	waitFor(t, "a look", func() bool { return looks.Load() > before })
	select {
	case n := <-told:
		t.Errorf("news of what can't be seen: %+v", n)
	default:
	}
	restore()
	if n := next(t, told); !n.waiting {
		t.Fatalf("got %+v, want that bash waits", n)
	}

	restore = exhaust(t)
	before = looks.Load()
	watch.Kick()
	waitFor(t, "a look", func() bool { return looks.Load() > before })
	stop() // when it has come to something
	select {
	case n := <-told:
		t.Errorf("news of what can't be seen: %+v", n)
	default:
	}
	restore()
}
