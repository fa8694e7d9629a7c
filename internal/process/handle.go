//go:build unix

package process

import (
	"slices"
	"sync/atomic"
	"syscall"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/child"
	"asyncrepl/internal/process/procset"
	"asyncrepl/internal/terminal/tty"
)

// A Handle is one started process, the leader, and the tree that grows from it.
type Handle struct {
	child      *child.Child
	self       procfs.Process
	owner      *Owner
	tty        *tty.PTY // nil: none
	mark       string
	files      []procfs.FileID // a process that holds one of them belongs to the tree
	killedByUs atomic.Bool     // we have killed it, or have tried to
	exiting    atomic.Bool     // see LetExit

	kills       *oomCounter // counts OOM kills in the tree's own group; else it is owner.kills
	killsBefore uint64      // the count when the leader was about to be started

	done     chan struct{}
	exit     Exit          // set before done is closed
	scanErr  error         // the error of the scan at the leader's end; set before done is closed
	treeGone chan struct{} // closed when the reaper drops h

	// Guarded by reaper.mu.
	number        uint64                 // counts handles; larger is newer
	reaped        bool                   // the leader has been reaped
	stopping      bool                   // we are ending the tree: no process counts as hung up
	seen          map[int]procfs.Stat    // the tree at its last scan; replaced, never changed
	sessions      map[int]procfs.Process // leaders of the tree's other sessions, as the guard knows
	reapedOrphans int                    // how many orphans of the tree were reaped
	rescan        bool                   // one was reaped since the last scan, perhaps a parent
	hungUp        []procfs.Process       // see HungUp
}

// enter puts h in the table. The caller holds reaper.mu.
func (h *Handle) enter(c *child.Child) {
	h.child, h.self = c, c.Self()
	reaper.count++
	h.number = reaper.count
	reaper.handles[h] = true
}

// follow waits for the end of the leader.
func (h *Handle) follow() {
	status := reaper.wait(h.child, func() { h.reaped = true })
	switch {
	case status.Signaled():
		h.exit = Exit{Code: -1, Signal: status.Signal()}
		h.exit.OOM = h.exit.Signal == syscall.SIGKILL && !h.killedByUs.Load() && h.kills.Claim(h.killsBefore)
	default:
		h.exit = Exit{Code: status.ExitStatus()}
	}
	h.scanErr = reaper.scan() // first: when done is closed, the leader's orphans must be known
	close(h.done)
	reaper.endUnattributed(h.owner.remaining)
}

// An Exit is how a process ended.
type Exit struct {
	Code   int            // -1 after a signal
	Signal syscall.Signal // 0: it exited
	OOM    bool           // by the kernel's count, it was killed because memory was short
}

// PID returns the leader's process ID, which is also its group and session ID.
func (h *Handle) PID() int { return h.self.PID }

// Mark returns the Mark of the Spec that the leader was started with.
func (h *Handle) Mark() string { return h.mark }

// Done returns a channel that is closed when the leader has been reaped.
func (h *Handle) Done() <-chan struct{} { return h.done }

// TreeGone returns a channel that is closed when the leader has been reaped and no process of its
// tree is left.
func (h *Handle) TreeGone() <-chan struct{} { return h.treeGone }

// Exit waits for Done and returns how the leader ended.
func (h *Handle) Exit() Exit {
	<-h.done
	return h.exit
}

// ClaimKills returns how many processes of the tree the kernel has killed because memory was short,
// since it was last called. It returns 0 unless the tree has its own control group, see
// [Spec.Kills]. A leader's own death is in its Exit.
func (h *Handle) ClaimKills() (n int) {
	for h.kills != h.owner.kills && h.kills.Claim(h.killsBefore) {
		n++
	}
	return n
}

// Signal sends sig to the leader and never to another process. The error is procfs.ErrGone if the
// leader has ended.
func (h *Handle) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		h.killedByUs.Store(true)
	}
	return h.child.Signal(sig)
}

// Interrupt sends SIGINT to the terminal's foreground group, as ^C does. It sends it to the
// leader's group if there is no terminal or no foreground group. If a process of that group is
// stopped, Interrupt continues the group: a stopped process does not act on an interrupt.
func (h *Handle) Interrupt() error {
	if h.tty != nil {
		if group, err := h.tty.Foreground(); err == nil && group > 1 && syscall.Kill(-group, syscall.SIGINT) == nil {
			h.resume(group)
			return nil
		}
	}
	err := h.child.SignalGroup(syscall.SIGINT)
	h.resume(h.self.PID)
	return err
}

// resume continues a process group if one of its processes, of the tree of h, is stopped.
func (h *Handle) resume(group int) {
	es, _ := h.members() // an error: the next rung continues the others
	procset.SendGroups(slices.DeleteFunc(es, func(e procfs.Stat) bool { return e.State != 'T' || e.Group != group }), syscall.SIGCONT)
}

// Forget releases what h remembers of its tree, for a caller that will not ask for the tree again.
// Shutdown ends the processes that are left of it.
func (h *Handle) Forget() {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	h.seen = nil
}
