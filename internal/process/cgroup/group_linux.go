package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// made counts groups, for their names.
var made atomic.Int64

// A Group is a control group with a limit of memory. The methods of a nil Group do nothing.
type Group struct {
	dir   string
	limit int64
}

// New makes a group whose processes can use so many bytes of memory together. It returns nil if no
// groups can be made here; Available says why.
func New(limit int64) (*Group, error) {
	base := open()
	if base == "" {
		return nil, nil
	}
	g := &Group{fmt.Sprintf("%s-%d", leafOf(base, os.Getpid()), made.Add(1)), limit}
	err := os.Mkdir(g.dir, 0o755)
	if err == nil {
		err = write(g.dir, "memory.max", strconv.FormatInt(limit, 10))
	}
	const swap = "memory.swap.max"
	if err == nil && !missing(g.dir, swap) { // else the kernel has no swap
		err = write(g.dir, swap, "0")
	}
	if err != nil {
		g.Remove()
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	return g, nil
}

// Another makes a group with the same limit. It returns nil if g is nil.
func (g *Group) Another() (*Group, error) {
	if g == nil {
		return nil, nil
	}
	return New(g.limit)
}

// Add moves a process into g. What the process starts from then on is in g, too. What it used
// before counts where it was.
func (g *Group) Add(pid int) error {
	if g == nil {
		return nil
	}
	return put(g.dir, pid)
}

// Counter returns a function that returns how many processes of g the kernel has killed because
// memory was short, in g or in the whole system. It returns nil if g is nil.
func (g *Group) Counter() func() (uint64, error) {
	if g == nil {
		return nil
	}
	return func() (uint64, error) { return readCount(filepath.Join(g.dir, "memory.events.local"), "oom_kill") }
}

// Full reports whether the processes of g have reached its limit, so that the kernel had to kill.
func (g *Group) Full() bool {
	if g == nil {
		return false
	}
	n, err := readCount(filepath.Join(g.dir, "memory.events.local"), "oom")
	return err == nil && n > 0
}

// removeLimit bounds the wait for a process that has been reaped to leave its group.
const removeLimit = 50 * time.Millisecond

// Remove removes g, which must be empty: a group with processes stays.
func (g *Group) Remove() {
	if g != nil {
		remove(g.dir, time.Now().Add(removeLimit))
	}
}

// remove removes a group, and reports whether it is gone. It waits for processes that are leaving.
func remove(dir string, until time.Time) bool {
	for {
		err := syscall.Rmdir(dir)
		if err != syscall.EBUSY {
			return err == nil || err == syscall.ENOENT
		}
		if time.Now().After(until) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
}
