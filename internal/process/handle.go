//go:build unix

package process

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"

	"asyncrepl/internal/tty"
)

// Handle is one started process, the leader, and the tree that grows from it.
type Handle struct {
	*child
	owner *Owner
	tty   *tty.PTY // nil: none
	mark  string
	files []fileID    // by which a process that holds one of them is known
	kills uint64      // of the kernel for want of memory, when it was started
	slain atomic.Bool // we have killed it, or tried to

	done    chan struct{}
	exit    Exit          // before done is closed
	cleared chan struct{} // closed by kin when it drops h

	// Guarded by kin.mu.
	number   uint64          // larger is newer
	gone     bool            // the leader has been reaped
	climbed  bool            // we are ending it: what dies is not hung up
	seen     map[int]entry   // the tree when it was last looked at; replaced, never changed
	sessions map[int]Process // of the tree, but the leader's own: their leaders, which the guard was told of
	buried   int             // orphans of it that were reaped
	unsure   bool            // whether the last of them left any
	hungUp   []Process
}

// enter puts h in the table. The caller holds kin.mu.
func (h *Handle) enter(c *child) {
	h.child = c
	kin.count++
	h.number = kin.count
	kin.handles[h] = true
}

// follow waits for the end of the leader.
func (h *Handle) follow() {
	status := kin.wait(h.child, func() { h.gone = true })
	switch {
	case status.Signaled():
		h.exit = Exit{Code: -1, Signal: status.Signal()}
		h.exit.OOM = h.exit.Signal == syscall.SIGKILL && !h.slain.Load() && h.owner.kills.claim(h.kills)
	default:
		h.exit = Exit{Code: status.ExitStatus()}
	}
	kin.look() // before anybody hears of the end: what it left is known by then
	close(h.done)
	kin.endUnclaimed()
}

// Exit is how a process ended.
type Exit struct {
	Code   int            // -1 after a signal
	Signal syscall.Signal // 0: it exited
	OOM    bool           // the kernel killed it for want of memory, by the kernel's own count
}

// PID is the number of the leader, of its group and of its session.
func (h *Handle) PID() int { return h.self.PID }

// Done is closed when the leader has been reaped.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Cleared is closed when the leader has been reaped and nothing is left of its tree.
func (h *Handle) Cleared() <-chan struct{} { return h.cleared }

// Exit is how the leader ended; it waits for Done.
func (h *Handle) Exit() Exit {
	<-h.done
	return h.exit
}

// Signal sends sig to the leader, and to nobody else ever.
func (h *Handle) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		h.slain.Store(true)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reaped || h.process.Signal(sig) != nil {
		return ErrGone
	}
	return nil
}

// Interrupt sends SIGINT to the terminal's foreground group, as ^C does, or to the leader's group where there is no
// terminal or nobody in front of it.
func (h *Handle) Interrupt() error {
	if h.tty != nil {
		if group, err := h.tty.Foreground(); err == nil && group > 1 && syscall.Kill(-group, syscall.SIGINT) == nil {
			return nil
		}
	}
	return h.signalGroup(syscall.SIGINT)
}

var errNoTerminal = errors.New("process has no terminal")

// Size sets the size of the terminal.
func (h *Handle) Size(rows, cols uint16) error {
	if h.tty == nil {
		return errNoTerminal
	}
	return h.tty.Resize(rows, cols)
}

// Tree is every living process of the tree, parents before their children. Nothing tells of an orphan that comes to us,
// so it is looked for.
func (h *Handle) Tree() []Process {
	kin.look()
	return living(h.members())
}

// Descendants is every living process that has the leader among its ancestors, parents before their children.
func (h *Handle) Descendants() []Process {
	kin.mu.Lock()
	gone := h.gone
	kin.mu.Unlock()
	if gone {
		return nil
	}
	ps := living(h.members())
	in := map[int]bool{h.self.PID: true}
	return slices.DeleteFunc(ps, func(p Process) bool {
		if !in[p.Parent] {
			return true
		}
		in[p.PID] = true
		return false
	})
}

// Unclaimed are the living processes that may belong to h or to another job, parents before their children.
func (h *Handle) Unclaimed() []Process {
	return living(walk(0, kin.unclaimed(func(o *orphan) bool { return slices.Contains(o.may, h) })))
}

// members looks at the tree: every process of it that has not been reaped, parents before their children. What it
// sees, it remembers: an orphan whose parents were in the tree belongs to it.
func (h *Handle) members() []entry {
	kin.mu.Lock()
	var roots []Process
	if !h.gone {
		roots = append(roots, h.self)
	}
	for _, o := range kin.orphans {
		if o.of == h {
			roots = append(roots, o.Process)
		}
	}
	old := h.seen
	kin.mu.Unlock()
	if len(roots) == 0 && !lingers(h.self.PID) {
		return nil
	}
	es := walk(h.self.PID, roots)
	if len(es) <= 1 && len(old) == 0 { // most jobs: the leader alone
		return es
	}
	seen := recall(old, es)
	kin.mu.Lock()
	defer kin.mu.Unlock()
	h.seen = seen
	h.tellSessions()
	return es
}

// tellSessions has the guard answer for the sessions of the tree. If we are killed, the hangup of the terminals may end
// the parents by which they are known before the guard looks. The caller holds kin.mu.
func (h *Handle) tellSessions() {
	sessions := make(map[int]Process)
	for _, e := range h.seen {
		leader, ok := h.seen[e.session]
		if told, before := h.sessions[e.session]; before { // its leader may have ended
			sessions[e.session] = told
		} else if ok && leader.session == leader.PID && leader.PID != h.self.PID {
			sessions[e.session] = leader.Process
			h.owner.guard.add(leader.Process)
		}
	}
	for s, told := range h.sessions {
		if _, ok := sessions[s]; !ok {
			h.owner.guard.forget(told)
		}
	}
	h.sessions = sessions
}

// Forget says that nobody will ask for h any more. What is left of its tree is ended by Shutdown.
func (h *Handle) Forget() {
	kin.mu.Lock()
	defer kin.mu.Unlock()
	h.seen = nil
}
