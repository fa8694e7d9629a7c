//go:build unix

package process

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// A child is a process that we started. It is reaped by its own wait and by nothing else.
type child struct {
	self    Process
	process *os.Process
	end     waiter

	mu     sync.Mutex // held while it is reaped, so that a signal never meets its number in other hands
	reaped bool
}

// launch starts a process and enters it in the table of what was started, together with what else enter does, in one
// step: no look at our children comes between.
func (f *family) launch(path string, argv []string, attr *os.ProcAttr, enter func(*child)) (*child, error) {
	f.step.RLock()
	defer f.step.RUnlock()
	c := &child{}
	pidfd := -1
	withPidfd(attr.Sys, &pidfd)
	p, err := startDefault(path, argv, attr)
	if errors.Is(err, syscall.EBADF) && crowded(attr.Files) {
		err = syscall.EMFILE
	}
	if err != nil {
		return nil, err
	}
	c.process, c.end = p, newWaiter(pidfd)
	c.self = Process{PID: p.Pid, Parent: os.Getpid(), Group: p.Pid}
	if e, ok := inspect(p.Pid); ok { // it can't be gone: nobody has reaped it
		c.self = e.Process
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started[p.Pid] = true
	enter(c)
	return c, nil
}

// wait waits for the end of c, reaps it and takes it off the table, together with what else leave does. It is called
// once.
func (f *family) wait(c *child, leave func()) syscall.WaitStatus {
	c.end.wait(c.self.PID)
	f.step.RLock()
	defer f.step.RUnlock()
	c.mu.Lock()
	state, err := c.process.Wait() // at once: it is a zombie
	c.reaped = true
	c.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.started, c.self.PID)
	leave()
	if err != nil {
		return 0x7f00 // exit status 127, which no truth hides behind: somebody broke the first rule of this package
	}
	return state.Sys().(syscall.WaitStatus)
}

// signalGroup sends sig to the group that c leads.
func (c *child) signalGroup(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return ErrGone
	}
	if err := syscall.Kill(-c.self.PID, sig); err != syscall.ESRCH {
		return err
	}
	return ErrGone
}

// wake lets c go on if it was stopped.
func (c *child) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.process.Signal(syscall.SIGCONT) // an error: it has ended
	}
}
