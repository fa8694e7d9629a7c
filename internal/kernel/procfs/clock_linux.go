package procfs

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A clock is the CPU time of all threads of a process, including those that have ended. It stands
// still while all of them sleep. It takes no descriptor, and reading it is one short system call.
type clock struct {
	pid  int
	last time.Duration
}

// processClock is CPUCLOCK_SCHED: the clock of another process, for clock_gettime(2), that shows
// the time measured by the scheduler.
const processClock = 2

// CPUTime returns the CPU time of all threads that the process has or had.
func CPUTime(pid int) (time.Duration, error) {
	// The call is too short to announce it to the Go scheduler, which would cost more than the
	// call.
	var t unix.Timespec
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(int32(^pid<<3|processClock)), uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return 0, ErrGone // the only reason: the call needs no permission and opens nothing
	}
	return time.Duration(t.Nano()), nil
}

// ran reports whether a thread has run since the last call.
func (c *clock) ran() (bool, error) {
	now, err := CPUTime(c.pid)
	if err != nil {
		return true, err
	}
	ran := now != c.last
	c.last = now
	return ran, nil
}

// maxClocks is how many processes of one tree have a clock each. For a larger tree the clocks would
// cost more than the scans they save.
const maxClocks = 128

// Clocks are the CPU clocks of the processes of one tree.
type Clocks struct {
	known      []clock
	used       time.Duration // CPU time of all of them, since each was first read
	threads    int
	incomplete bool // some process has no clock, or there was no process
}

// Moved reports whether one of the processes has run or ended since the last call. If none has,
// then the tree has no new thread or process either, because only a thread that runs can start one.
func (c *Clocks) Moved() bool {
	moved, ended := false, false
	for i := range c.known {
		before := c.known[i].last
		ran, err := c.known[i].ran()
		moved = moved || ran
		c.used += c.known[i].last - before
		if err != nil {
			ended = true
			c.known[i].pid = 0
		}
	}
	if ended {
		c.known = slices.DeleteFunc(c.known, func(k clock) bool { return k.pid == 0 })
	}
	return moved
}

// followTries bounds how often Follow lists a tree that grows.
const followTries = 3

// Follow gives a clock to each process that list returns, and returns them. It lists again while
// there are new ones among them, which may have started others since they were listed. It returns
// list's error: then processes can be missing.
func (c *Clocks) Follow(list func() ([]int, error)) (pids []int, err error) {
	for range followTries {
		pids, err = list()
		grew := c.follow(pids)
		if err != nil {
			c.incomplete = true
			return pids, err
		}
		if !grew {
			return pids, nil
		}
	}
	c.incomplete = true // the tree grows faster than it can be listed
	return pids, nil
}

// follow gives a clock to each of pids and reports whether there were new processes among them.
func (c *Clocks) follow(pids []int) (grew bool) {
	old := make(map[int]clock, len(c.known))
	for _, k := range c.known {
		old[k.pid] = k
	}
	c.known, c.threads, c.incomplete = c.known[:0], 0, len(pids) == 0
	for _, pid := range pids {
		tids, err := Threads(pid)
		c.threads += len(tids)
		c.incomplete = c.incomplete || err != nil && err != ErrGone
		k, ok := old[pid]
		switch {
		case ok:
		case len(c.known) >= maxClocks:
			c.incomplete = true
			continue
		default:
			k.pid = pid
			if _, err := k.ran(); err != nil {
				c.incomplete = true // it may have started others: the next Follow shows them
				continue
			}
			grew = true
			c.used += k.last
		}
		c.known = append(c.known, k)
	}
	return grew
}

// Used returns the CPU time of the processes at the last reading. The difference between two calls is
// what the tree has used meanwhile, except by processes that ended before Follow has seen them.
func (c *Clocks) Used() time.Duration { return c.used }

// Threads returns how many threads the processes had at the last Follow, with or without a clock.
func (c *Clocks) Threads() int { return c.threads }

// Complete reports whether there were processes at the last Follow, all of them with a clock.
func (c *Clocks) Complete() bool { return !c.incomplete }

// A ThreadClock is the kernel's account of when one thread ran and waited for a processor. It
// stands still while the thread sleeps.
type ThreadClock struct {
	path string
	last string
}

// NewThreadClock returns the clock of a thread, from now on. Its source is schedstat, or if the
// kernel keeps no such account the much slower status, which counts context switches.
func NewThreadClock(pid, tid int) (*ThreadClock, error) {
	c := &ThreadClock{path: TaskPath(pid, tid, "schedstat")}
	var err error
	if c.last, err = c.read(); err == nil && c.last != "0 0 0\n" {
		return c, nil
	}
	c.path = TaskPath(pid, tid, "status")
	if c.last, err = c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// Ran reports whether the thread has run since the last call, or since the clock was made.
func (c *ThreadClock) Ran() (bool, error) {
	now, err := c.read()
	if err != nil {
		return true, err
	}
	ran := now != c.last
	c.last = now
	return ran, nil
}

func (c *ThreadClock) read() (string, error) {
	var buf [2048]byte
	b, err := ReadStart(c.path, buf[:])
	return string(b), err
}

// ThreadTime returns the CPU time of a thread that does not run, or 0 if the kernel keeps no account of
// it.
func ThreadTime(pid, tid int) (time.Duration, error) {
	var buf [64]byte
	b, err := ReadStart(TaskPath(pid, tid, "schedstat"), buf[:])
	if err != nil {
		return 0, err
	}
	used, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseInt(used, 10, 64)
	return time.Duration(n), err
}
