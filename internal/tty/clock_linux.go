package tty

import (
	"hash/maphash"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxClocks is how many processes of one job are followed by a clock each. A job with more is looked at once a second
// instead: the clocks would cost more than the looks they save.
const maxClocks = 128

// clock is the processor time of all threads of a process, those that have ended too. It stands still for as long as
// all of them sleep. It takes no descriptor, and asking it is one short call.
type clock struct {
	pid  int
	last int64 // in nanoseconds
}

// processClock is CPUCLOCK_SCHED of clock_gettime(2)'s clocks of other processes: what the scheduler has measured.
const processClock = 2

// ran tells whether a thread has run since the clock was last asked; false for ok: the process has ended. The call is
// too short for the scheduler to be told of it, which would cost more than the call.
func (c *clock) ran() (ran, ok bool) {
	var t unix.Timespec
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(int32(^c.pid<<3|processClock)), uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return true, false
	}
	now := t.Nano()
	ran, c.last = now != c.last, now
	return ran, true
}

// clocks follow the processes of one job.
type clocks struct {
	known []clock
	count int  // threads at the last follow, of processes with or without a clock
	blind bool // some have none, or there was no process to give one
}

// moved tells whether one of the processes has run or ended since the clocks were last asked. If none has, then the job
// has no new thread or process either, for only a thread that runs can start one.
func (c *clocks) moved() bool {
	moved := false
	ended := false
	for i := range c.known {
		ran, ok := c.known[i].ran()
		moved, ended = moved || ran, ended || !ok
		if !ok {
			c.known[i].pid = 0
		}
	}
	if ended {
		c.known = slices.DeleteFunc(c.known, func(k clock) bool { return k.pid == 0 })
	}
	return moved
}

// follow makes procs those that are followed, and tells whether there were unknown ones among them: these may have
// started others since they were listed, so list again.
func (c *clocks) follow(procs []int) (grew bool) {
	old := make(map[int]clock, len(c.known))
	for _, k := range c.known {
		old[k.pid] = k
	}
	c.known, c.count, c.blind = c.known[:0], 0, len(procs) == 0
	for _, pid := range procs {
		c.count += len(threads(pid))
		k, ok := old[pid]
		switch {
		case ok:
		case len(c.known) >= maxClocks:
			c.blind = true
			continue
		default:
			k.pid = pid
			if _, ok := k.ran(); !ok {
				c.blind = true // or it has ended meanwhile: the next follow tells
				continue
			}
			grew = true
		}
		c.known = append(c.known, k)
	}
	return grew
}

// threadClock is an open file of /proc whose content stays the same for as long as a thread sleeps.
type threadClock struct {
	fd   int
	last uint64 // hash of the content
}

var seed = maphash.MakeSeed()

// openThreadClock opens the clock of a thread: schedstat, or where the kernel keeps no such account the much dearer
// status, which counts context switches.
func openThreadClock(pid, tid int) (threadClock, bool) {
	for _, name := range []string{"schedstat", "status"} {
		fd, err := unix.Open(taskFile(pid, tid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		c := threadClock{fd: fd}
		if _, ok := c.ran(); ok && c.last != maphash.String(seed, "0 0 0\n") {
			return c, true
		}
		c.close()
	}
	return threadClock{}, false
}

// ran tells whether the thread has run since it was last asked; false for ok: it has ended.
func (c *threadClock) ran() (ran, ok bool) {
	var buf [2048]byte
	n, err := unix.Pread(c.fd, buf[:], 0)
	if err != nil || n <= 0 {
		return true, false
	}
	now := maphash.Bytes(seed, buf[:n])
	ran, c.last = now != c.last, now
	return ran, true
}

func (c threadClock) close() { unix.Close(c.fd) }
