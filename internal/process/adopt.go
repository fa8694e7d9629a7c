//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/child"
)

// Adopt makes an orphan of ours a process that o has started: it gets a Handle with its true exit
// status, and leaves the tree that it was forked in. The process must have come to us, and lead its
// own session on s.TTY; of s only TTY, Mark and Kills count. The caller has its pid from the
// kernel. The kernel still shows the environment of the process that it was forked from, because
// /proc shows the environment of the last exec
// (https://man7.org/linux/man-pages/man5/proc_pid_environ.5.html).
func (o *Owner) Adopt(pid int, s Spec) (*Handle, error) {
	if o.closed.Load() {
		return nil, ErrShutdown
	}
	h := o.newHandle(s, []*os.File{s.TTY.Slave()})
	if err := reaper.enlist(pid, s.TTY.Device().Rdev, h.enter); err != nil {
		return nil, fmt.Errorf("adopting process %d: %w", pid, err)
	}
	return o.begin(h)
}

// enlist moves an orphan, which must lead its own session on the terminal, to the table of started
// children and calls enter. It is one step, because scans enter and reap orphans.
func (r *processReaper) enlist(pid int, terminal uint64, enter func(*child.Child)) error {
	r.scanning.Lock()
	defer r.scanning.Unlock()
	s, err := procfs.Inspect(pid)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case s.Parent != os.Getpid() || r.started[pid]:
		return errors.New("it is no orphan of ours")
	// A process that is ending loses its terminal.
	case s.Session != pid || s.Terminal != terminal && !s.Ending():
		return errors.New("it does not lead its own session on its terminal")
	}
	c, err := child.Adopt(s.Process)
	if err != nil {
		return err
	}
	if o := r.orphans[pid]; o != nil { // a scan came first
		r.forget(o)
	}
	for h := range r.handles {
		delete(h.sessions, pid) // or the guard would forget it with the last process of its session
	}
	r.started[pid] = true
	enter(c)
	return nil
}
