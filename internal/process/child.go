//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"asyncrepl/internal/procfs"
)

// A child is a process that we started. Only its own wait reaps it.
type child struct {
	self    procfs.Process
	process *os.Process
	end     waiter

	mu     sync.Mutex // held while it is reaped: no signal goes to a later process
	waited bool       // it has been reaped
}

// launch starts a process and enters it in the table of started children, together with what enter
// does, in one step: no scan comes between.
func (r *processReaper) launch(path string, argv []string, attr *os.ProcAttr, enter func(*child)) (*child, error) {
	r.steps.RLock()
	defer r.steps.RUnlock()
	pidfd := -1
	withPidfd(attr.Sys, &pidfd)
	p, err := startDefault(path, argv, attr)
	if errors.Is(err, syscall.EBADF) && exceedsLimit(attr.Files) {
		err = syscall.EMFILE
	}
	if err != nil {
		return nil, err
	}
	c := &child{process: p, end: newWaiter(pidfd)}
	s, err := procfs.Inspect(p.Pid)
	if err != nil { // not gone, for we have not reaped it; but without its start time it could not be ended
		p.Kill()
		p.Wait()
		c.end.close()
		return nil, fmt.Errorf("inspecting the new process: %w", err)
	}
	c.self = s.Process
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started[p.Pid] = true
	enter(c)
	return c, nil
}

// wait waits for the end of c, reaps it and removes it from the table, together with what leave
// does. It is called once.
func (r *processReaper) wait(c *child, leave func()) syscall.WaitStatus {
	c.end.wait(c.self.PID)
	r.steps.RLock()
	defer r.steps.RUnlock()
	c.mu.Lock()
	state, err := c.process.Wait() // at once: it is a zombie
	c.waited = true
	c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.started, c.self.PID)
	leave()
	if err != nil {
		return 0x7f00 // exit status 127: unknown, another wait has reaped this child
	}
	return state.Sys().(syscall.WaitStatus)
}

// signal sends sig to c.
func (c *child) signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited || c.process.Signal(sig) != nil {
		return procfs.ErrGone
	}
	return nil
}

// signalGroup sends sig to the group that c leads.
func (c *child) signalGroup(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited {
		return procfs.ErrGone
	}
	if err := syscall.Kill(-c.self.PID, sig); err != syscall.ESRCH {
		return err
	}
	return procfs.ErrGone
}

// ended reports whether c has ended, reaped or not. A child that could not be inspected has not.
func (c *child) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited {
		return true
	}
	s, err := procfs.Inspect(c.self.PID)
	return errors.Is(err, procfs.ErrGone) || err == nil && s.Ended()
}
