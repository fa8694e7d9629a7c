package tty

import (
	"hash/maphash"

	"golang.org/x/sys/unix"
)

// maxClocks is how many threads of one job are followed by a clock each. A job with more is looked at once a second
// instead: the clocks would cost more than the looks they save, and a descriptor each.
const maxClocks = 64

// clock is an open file of /proc whose content stays the same for as long as a thread sleeps.
type clock struct {
	pid, tid int
	fd       int
	last     uint64 // hash of the content: 500 jobs' clocks should pass through the cache, and through little of it
}

var seed = maphash.MakeSeed()

// openClock opens the clock of a thread: schedstat, or where the kernel keeps no such account the much dearer status,
// which counts context switches.
func openClock(pid, tid int) (clock, bool) {
	for _, name := range []string{"schedstat", "status"} {
		fd, err := unix.Open(taskFile(pid, tid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		c := clock{pid: pid, tid: tid, fd: fd}
		if _, ok := c.ran(); ok && c.last != maphash.String(seed, "0 0 0\n") {
			return c, true
		}
		c.close()
	}
	return clock{}, false
}

// ran tells whether the thread has run since it was last asked; false for ok: it has ended.
func (c *clock) ran() (ran, ok bool) {
	var buf [2048]byte
	n, err := unix.Pread(c.fd, buf[:], 0)
	if err != nil || n <= 0 {
		return true, false
	}
	now := maphash.Bytes(seed, buf[:n])
	ran, c.last = now != c.last, now
	return ran, true
}

func (c clock) close() { unix.Close(c.fd) }

// clocks follow the threads of one job.
type clocks struct {
	known []clock
	count int  // threads at the last follow, with or without a clock
	blind bool // some have none, or there was no thread to give one
}

// moved tells whether one of the threads has run or ended since the clocks were last asked. If none has, then the job
// has no new thread or process either, for only a thread that runs can start one.
func (c *clocks) moved() bool {
	moved := false
	alive := 0
	for i := range c.known {
		k := &c.known[i]
		ran, ok := k.ran()
		moved = moved || ran
		if !ok {
			k.close()
			continue
		}
		if alive != i {
			c.known[alive] = *k
		}
		alive++
	}
	c.known = c.known[:alive]
	return moved
}

// follow makes the threads of procs those that are followed, and tells whether there were unknown ones among them:
// these may have started others since procs and threads were listed, so list again.
func (c *clocks) follow(procs []int) (grew bool) {
	old := make(map[[2]int]clock, len(c.known))
	for _, k := range c.known {
		old[[2]int{k.pid, k.tid}] = k
	}
	c.known, c.count, c.blind = c.known[:0], 0, len(procs) == 0
	for _, pid := range procs {
		for _, tid := range threads(pid) {
			c.count++
			id := [2]int{pid, tid}
			k, ok := old[id]
			switch {
			case ok:
				delete(old, id)
			case len(c.known) >= maxClocks:
				c.blind = true
				continue
			default:
				if k, ok = openClock(pid, tid); !ok {
					c.blind = true // or it has ended meanwhile: the next follow tells
					continue
				}
				grew = true
			}
			c.known = append(c.known, k)
		}
	}
	for _, k := range old {
		k.close()
	}
	return grew
}

func (c *clocks) close() {
	for _, k := range c.known {
		k.close()
	}
	c.known = nil
}
