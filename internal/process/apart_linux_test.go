package process

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// limit leaves this process the descriptors below n, until restore.
func limit(t *testing.T, n uint64) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = n
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}

// exhaust leaves this process not one descriptor, and returns what gives them
// back.
func exhaust(t *testing.T) (restore func()) {
	freed := limit(t, 256)
	var taken []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	return func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		freed()
	}
}

// A child that has to move the highest descriptor there may be finds no number
// for it.
func TestStartWithHighestDescriptor(t *testing.T) {
	o := newOwner(t)
	const highest = 1000
	defer limit(t, highest+1)()
	fd, err := unix.FcntlInt(o.null.Fd(), unix.F_DUPFD_CLOEXEC, highest)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "highest")
	defer f.Close()
	_, err = o.Start(Spec{Argv: []string{"/bin/true"}, Files: []*os.File{nil, f, nil}})
	if !errors.Is(err, syscall.EMFILE) {
		t.Errorf("got %v, want %v", err, syscall.EMFILE)
	}
}

// Without a descriptor to look by, nothing is taken for ended: neither the tree
// of a job, nor what it left, nor the guard.
func TestNoDescriptors(t *testing.T) {
	o, err := NewOwner(Config{Guard: self("part-guard")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Shutdown)
	tag := tag()
	runs := onPipe(t, o, "runs", "sleep "+tag+" & wait")
	left := onPipe(t, o, "left", "setsid sleep "+tag+" & exit 0")
	ends(t, left.Handle)
	grown(t, tag, 2)
	guard := o.guard.pid()

	restore := exhaust(t)
	f, openErr := os.Open("/")
	tree, leftTree := programs(runs.Tree()), programs(left.Tree())
	o.guard.ensure()
	kin.look()
	restore()

	if openErr == nil {
		f.Close()
		t.Error("there was a descriptor")
	}
	if tree != "bash sleep" || leftTree != "sleep" {
		t.Errorf("the trees were %q and %q", tree, leftTree)
	}
	select {
	case <-left.Cleared():
		t.Error("what was left is taken for ended")
	default:
	}
	if now := o.guard.pid(); now != guard {
		t.Errorf("the guard was %d, then %d", guard, now)
	}
	end(t, runs.Handle)
	end(t, left.Handle)
	gone(t, tag)
}

// The thread is one that the runtime uses as any other: a collection that begins there polls.
func TestApartIsOneOfTheRuntimesThreads(t *testing.T) {
	newOwner(t)
	ran := 0
	for range 50 {
		apart(func() { runtime.GC(); ran++ })
	}
	if ran != 50 {
		t.Errorf("ran %d times", ran)
	}
}

// Nothing is kept open by the thread's table: the other end of a pipe hears of its end.
func TestApartKeepsNothingOpen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	newOwner(t)
	apart(func() {})
	w.Close()
	r.SetReadDeadline(time.Now().Add(patience))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read %d, %v", n, err)
	}
}
