package process

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// An apartment is a thread with a table of descriptors of its own, for looks at processes where the table of all other
// threads is full: a process that can't be looked at would be taken for one that has ended, and what a job left for
// nothing. It is made while there is room for it.
type apartment struct {
	work chan func()   // each tells itself that it has been done
	none chan struct{} // closed if it could not be made
	left chan struct{} // closed at the end
}

// aside is the apartment while there is an Owner.
var aside atomic.Pointer[apartment]

// settleAside makes the apartment, and clearAside ends it.
func settleAside() {
	a := &apartment{work: make(chan func()), none: make(chan struct{}), left: make(chan struct{})}
	taken := make(chan struct{})
	go a.run(taken) // owned by the family; ends with the apartment, and its thread with it
	aside.Store(a)
}

func clearAside() { close(aside.Swap(nil).left) }

// run works in the apartment. Its thread is never the main one, which would outlive it, with the table.
func (a *apartment) run(taken chan struct{}) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		go a.run(taken) // on another thread, for this one is locked; owned, and ends, as above
		<-taken
		runtime.UnlockOSThread()
		return
	}
	close(taken)
	if !furnish() {
		close(a.none)
		return
	}
	for {
		select {
		case f := <-a.work:
			f()
		case <-a.left:
			return
		}
	}
}

// apart runs f, which opens files by system calls alone and closes them, in the apartment. Where there is none f is not
// run.
func apart(f func()) {
	a := aside.Load()
	if a == nil {
		return
	}
	done := make(chan struct{})
	select {
	case a.work <- func() { defer close(done); f() }:
		<-done
	case <-a.none:
	case <-a.left:
	}
}

// furnish gives the thread a table of its own, with little in it, and tells whether it could: not before Linux 5.9. What
// the runtime's poller needs stays, for any thread may come to poll, and so do the standard streams.
func furnish() bool {
	const beyond = 1 << 30 // every descriptor: the table is copied, and nothing closed
	if unix.CloseRange(beyond, beyond, unix.CLOSE_RANGE_UNSHARE) != nil {
		return false
	}
	const dir = "/proc/thread-self/fd"
	names, err := list(dir)
	if err != nil {
		return false
	}
	poller := []string{"anon_inode:[eventpoll]", "anon_inode:[eventfd]"}
	found := 0
	var buf [64]byte
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		switch n, err := unix.Readlink(dir+"/"+name, buf[:]); {
		case err != nil: // the directory itself
		case slices.Contains(poller, string(buf[:n])):
			found++
		default:
			unix.Close(fd)
		}
	}
	return found >= len(poller)
}
