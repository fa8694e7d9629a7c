//go:build linux

package listening_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/listening"
	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

const patience = polltest.Patience

// ourselves is a tree of this process alone.
func ourselves() ([]procfs.Process, error) {
	s, err := procfs.Inspect(os.Getpid())
	return []procfs.Process{s.Process}, err
}

// A job is followed, and receives its reports.
type job struct{ reported chan []listening.Port }

func follow(tree *listening.Tree, opened bool) job {
	j := job{make(chan []listening.Port, 1000)} // report must not block, and no test makes more
	tree.Follow(func(ports []listening.Port) { j.reported <- ports }, opened)
	return j
}

// says waits for a report of exactly these listeners, all of this process.
func (j job) says(t *testing.T, listeners ...net.Listener) {
	t.Helper()
	var want []string
	for _, l := range listeners {
		want = append(want, l.Addr().String())
	}
	slices.Sort(want)
	var got []string
	for end := time.After(patience); ; {
		select {
		case ports := <-j.reported:
			got = nil
			for _, p := range ports {
				if p.Process.PID != os.Getpid() || p.Process.Program == "" {
					t.Errorf("%v is said to be %v's", p.Addr, p.Process)
				}
				got = append(got, p.Addr.String())
			}
			slices.Sort(got)
			if slices.Equal(got, want) {
				return
			}
		case <-end:
			t.Fatalf("the last report is %q, want %q", got, want)
		}
	}
}

// A port is reported when a process begins to listen, and no longer when it has stopped. A
// connection is not reported.
func TestPortsAreReported(t *testing.T) {
	tree := listening.NewTree(ourselves)
	defer tree.Close()
	j := follow(tree, true)
	a := needtest.Listen(t, "tcp4", "127.0.0.1:0")
	j.says(t, a)
	b := needtest.Listen(t, "tcp6", "[::1]:0")
	j.says(t, a, b)
	if _, err := net.Dial("tcp", a.Addr().String()); err != nil {
		t.Error(err)
	}
	c := needtest.Listen(t, "tcp4", "0.0.0.0:0")
	j.says(t, a, b, c)
	a.Close()
	j.says(t, b, c)
}

// A port belongs to the job during which it was opened, and to no later job of the tree.
func TestPortsBelongToOneJob(t *testing.T) {
	tree := listening.NewTree(ourselves)
	defer tree.Close()
	first := follow(tree, true)
	a := needtest.Listen(t, "tcp4", "127.0.0.1:0")
	first.says(t, a)
	tree.Rest()
	second := follow(tree, true)
	b := needtest.Listen(t, "tcp4", "127.0.0.1:0")
	second.says(t, b)
	a.Close()
	b.Close()
	second.says(t)
}

// A port that a job opened just before its end is not that of a later job, even if no poll came
// between. That holds for the second job after it, too, if nothing was opened since.
func TestPortOfAShortJobIsNotThatOfALaterOne(t *testing.T) {
	for name, between := range map[string]int{"the next": 0, "the one after": 1} {
		t.Run(name, func(t *testing.T) {
			tree := listening.NewTree(ourselves)
			defer tree.Close()
			first := follow(tree, true)
			first.says(t, needtest.Listen(t, "tcp4", "127.0.0.1:0")) // and a poll is over
			needtest.Listen(t, "tcp4", "127.0.0.1:0")
			tree.Rest()
			for range between {
				follow(tree, true)
				tree.Rest()
			}
			later := follow(tree, between == 0)
			later.says(t, needtest.Listen(t, "tcp4", "127.0.0.1:0"))
		})
	}
}

// A job that begins while a poll searches has none of the ports that were there before.
func TestPortsBeforeAJobThatBeginsDuringASearch(t *testing.T) {
	var tree *listening.Tree
	var later job
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { later = follow(tree, true); close(begun) })
	tree = listening.NewTree(func() ([]procfs.Process, error) {
		begin()
		return ourselves()
	})
	defer tree.Close()
	needtest.Listen(t, "tcp4", "127.0.0.1:0")
	follow(tree, false)
	<-begun
	later.says(t, needtest.Listen(t, "tcp4", "127.0.0.1:0"))
}

// A tree that could not be listed is searched again.
func TestFailedSearchIsRepeated(t *testing.T) {
	failed := 0
	tree := listening.NewTree(func() ([]procfs.Process, error) { // called by the poller alone
		if failed++; failed <= 2 {
			return nil, errors.New("not now")
		}
		return ourselves()
	})
	defer tree.Close()
	// Even if the poll of an earlier test is under way, no earlier job can have opened the port.
	a := needtest.Listen(t, "tcp4", "127.0.0.1:0")
	follow(tree, false).says(t, a)
}

// Of the sockets that an epoll set watches, those that listen are found, and no others are.
func TestWatched(t *testing.T) {
	epoll := must.Get(unix.EpollCreate1(unix.EPOLL_CLOEXEC))(t)
	defer unix.Close(epoll)
	watched := needtest.Listen(t, "tcp4", "127.0.0.1:0")
	needtest.Listen(t, "tcp4", "127.0.0.1:0")
	connection := must.Get(net.Dial("tcp", watched.Addr().String()))(t)
	defer connection.Close()
	for _, c := range []any{watched, connection} {
		raw := must.Get(c.(syscall.Conn).SyscallConn())(t)
		raw.Control(func(fd uintptr) {
			if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
				t.Fatal(err)
			}
		})
	}
	var got []string
	for _, addr := range must.Get(listening.Watched(os.Getpid(), epoll))(t) {
		got = append(got, addr.String())
	}
	if want := []string{watched.Addr().String()}; !slices.Equal(got, want) {
		t.Errorf("it watches %q, want %q", got, want)
	}
	if found, err := listening.Watched(os.Getpid(), 1<<30); err == nil {
		t.Errorf("without a descriptor: %v", found)
	}
}

// A program listens, and is reported.
func Example() {
	tree := listening.NewTree(ourselves)
	defer tree.Close()
	reported := make(chan listening.Port, 1)
	tree.Follow(func(ports []listening.Port) {
		if len(ports) > 0 {
			reported <- ports[0]
		}
	}, false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	port := <-reported
	fmt.Println(port.Addr.String() == l.Addr().String(), port.Process.PID == os.Getpid())
	// Output: true true
}
