//go:build unix

// Package child starts one process, or adopts one, and waits for it.
//
// A [Child] has one waiter, which parks in Go's poller on a pidfd and takes no thread. Waiting for
// the end and reaping are two steps, [Child.AwaitEnd] and [Child.Reap], so that a caller can hold
// its own lock while it reaps the child. Until the child has been reaped its pid belongs to no
// other process; after that, no signal is sent to it or its group, because it could reach a later
// process (https://github.com/golang/go/issues/13987). A child starts with no signal blocked, even
// if this program was started with some.
//
// The error of a signal is [procfs.ErrGone] if the child has been reaped. The package knows no
// tree, terminal or guard; those belong to package process. Begin with Start;
// [LookPath] finds the program to start.
package child

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"asyncrepl/internal/kernel/procfs"
)

// A Child is a process that Start has started or Adopt has adopted. Several goroutines can call its
// methods at once.
type Child struct {
	self    procfs.Process
	process *os.Process
	end     waiter

	mu     sync.Mutex // held while it is reaped, so that no signal goes to a later process
	reaped bool
}

// Start starts a program. Its error names the program, and the directory if that is the cause. It
// is EMFILE if the program can have no more descriptors.
func Start(path string, argv []string, attr *os.ProcAttr) (*Child, error) {
	pidfd := -1
	withPidfd(attr.Sys, &pidfd)
	p, err := startDefault(path, argv, attr)
	if errors.Is(err, syscall.EBADF) && exceedsLimit(attr.Files) {
		err = syscall.EMFILE
	}
	if err != nil {
		return nil, startError(argv[0], attr.Dir, err)
	}
	end := newWaiter(pidfd)
	s, err := procfs.Inspect(p.Pid)
	if err != nil { // it still exists, but without its start time it could not be ended safely
		p.Kill()
		p.Wait()
		end.close()
		return nil, fmt.Errorf("inspecting the new process: %w", err)
	}
	return &Child{self: s.Process, process: p, end: end}, nil
}

// Adopt makes a child of ours that this program has not started, because it came to us as an
// orphan, a Child. The caller ensures that no other code reaps p meanwhile. The error is
// procfs.ErrGone if p has been reaped.
func Adopt(p procfs.Process) (*Child, error) {
	process, err := os.FindProcess(p.PID)
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", p.PID, err)
	}
	end := findWaiter(p.PID)
	s, err := procfs.Inspect(p.PID)
	if err == nil && s.Start != p.Start {
		err = procfs.ErrGone
	}
	if err != nil {
		process.Release()
		end.close()
		return nil, fmt.Errorf("inspecting process %d: %w", p.PID, err)
	}
	return &Child{self: s.Process, process: process, end: end}, nil
}

// Self returns the process as it was at its start, or when it was adopted.
func (c *Child) Self() procfs.Process { return c.self }

// AwaitEnd waits for the end of c without reaping it. It must be called once.
func (c *Child) AwaitEnd() { c.end.wait(c.self.PID) }

// Reap reaps c after AwaitEnd and returns its status. It must be called once.
func (c *Child) Reap() syscall.WaitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, err := c.process.Wait() // it returns at once, because c is a zombie
	c.reaped = true
	if err != nil {
		return 0x7f00 // exit status 127: unknown, another wait has reaped this child
	}
	return state.Sys().(syscall.WaitStatus)
}

// Signal sends sig to c.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || c.process.Signal(sig) != nil {
		return procfs.ErrGone
	}
	return nil
}

// SignalGroup sends sig to the group that c leads.
func (c *Child) SignalGroup(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return procfs.ErrGone
	}
	if err := syscall.Kill(-c.self.PID, sig); err != syscall.ESRCH {
		return err
	}
	return procfs.ErrGone
}

// Ended reports whether c has ended, even if it has not been reaped. A child that could not be
// inspected counts as running.
func (c *Child) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return true
	}
	s, err := procfs.Inspect(c.self.PID)
	return errors.Is(err, procfs.ErrGone) || err == nil && s.Ended()
}

// exceedsLimit reports whether a child that gets files could need a descriptor beyond the limit. It
// moves them, and the pipe on which it reports an error, above the highest of them before it puts
// each in its place. If the limit is in the way, the kernel's error is EBADF.
func exceedsLimit(files []*os.File) bool {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return false
	}
	highest := len(files)
	for _, f := range files {
		highest = max(highest, int(f.Fd()))
	}
	return uint64(highest+1+len(files)) >= l.Cur
}
