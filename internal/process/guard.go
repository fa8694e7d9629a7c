//go:build unix

package process

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/child"
	"asyncrepl/internal/guard"
	"asyncrepl/internal/procfs"
)

// guardWriteLimit bounds how long a guard that does not read can delay a start. Its pipe takes
// thousands of lines first. The limit is longer than a busy machine may take between setting a
// deadline and the write.
const guardWriteLimit = time.Second

// A guardLink is our side of the guard, the process that kills what remains when this one is
// killed.
//
// The guard starts before the first process that it must answer for. Each start of a process checks
// it: a guard that has died is replaced and told everything again, and one that was stopped is
// continued. Between the death of a guard and the next start nobody kills what remains if this
// process is killed too.
type guardLink struct {
	owner *Owner
	limit time.Duration // guardWriteLimit, but in tests

	starting sync.Mutex // held while a guard is started; never together with mu or reaper.mu

	mu     sync.Mutex
	added  map[int]procfs.Process // what the guard must answer for
	w      *os.File               // nil: there is no guard
	child  *child.Child
	needed bool // a process has been started, or was about to be
	closed bool
}

func newGuardLink(o *Owner) *guardLink {
	return &guardLink{owner: o, limit: guardWriteLimit, added: make(map[int]procfs.Process)}
}

// ensure starts a guard if none is running. Processes are started even if that fails.
func (g *guardLink) ensure() {
	g.mu.Lock()
	g.needed = true
	g.mu.Unlock()
	config := g.owner.config
	if len(config.Guard) == 0 {
		return
	}
	g.starting.Lock()
	defer g.starting.Unlock()
	if g.running() {
		return
	}
	c, w, err := g.start()
	if err != nil {
		config.Log.Error("starting the guard", "error", err)
		return
	}
	go g.reap(c) // owned by the guardLink; ends when the guard has been reaped

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		w.Close()
		return
	}
	g.w, g.child = w, c
	var lines strings.Builder
	lines.WriteString(guard.Mark(config.Mark+"_OWNER", g.owner.token))
	for _, p := range g.added {
		lines.WriteString(guard.Add(p))
	}
	g.write(lines.String())
}

// start starts a guard and returns our end of its pipe.
func (g *guardLink) start() (*child.Child, *os.File, error) {
	config := g.owner.config
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	attr := &os.ProcAttr{
		Dir:   "/", // it keeps no directory busy
		Env:   append([]string{}, config.GuardEnv...),
		Files: []*os.File{r, g.owner.null, g.owner.null},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	var started *child.Child
	if err := reaper.launch(config.Guard[0], config.Guard, attr, func(c *child.Child) { started = c }); err != nil {
		w.Close()
		return nil, nil, err
	}
	return started, w, nil
}

// running reports whether no guard need be started, and continues a guard that is stopped or about
// to be. It asks the kernel, because the death of ours may not have been noticed yet. A guard that
// could not be inspected counts as alive.
func (g *guardLink) running() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return true
	}
	if g.w != nil && !g.child.Ended() {
		g.child.Signal(syscall.SIGCONT) // an error: it has ended
		return true
	}
	g.drop()
	return false
}

// reap waits for the end of a guard.
func (g *guardLink) reap(c *child.Child) {
	reaper.wait(c, func() {})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.child == c && !g.closed {
		g.drop()
		g.owner.config.Log.Warn("guard exited; the next start of a process replaces it")
	}
}

// add tells the guard to answer for p, with everything that is in a group or session of p's pid. It
// returns false if no guard took it; the next guard will be told.
func (g *guardLink) add(p procfs.Process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.added[p.PID] = p
	return g.write(guard.Add(p))
}

// forget tells the guard that p has ended and that nothing is left of its group and session.
func (g *guardLink) forget(p procfs.Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.added[p.PID].Start != p.Start {
		return
	}
	delete(g.added, p.PID)
	g.write(guard.Forget(p.PID))
}

// write sends lines to the guard. A guard that does not take them is dropped. The caller holds mu.
func (g *guardLink) write(lines string) bool {
	if g.w == nil {
		return false
	}
	g.w.SetWriteDeadline(time.Now().Add(g.limit))
	if _, err := g.w.WriteString(lines); err != nil {
		g.owner.config.Log.Warn("writing to the guard", "error", err)
		g.drop()
		return false
	}
	return true
}

// drop ends the guard, if there is one. It is killed before its pipe is closed, because the end of
// the pipe would make it kill. The caller holds mu.
func (g *guardLink) drop() {
	if g.w != nil {
		g.child.Signal(syscall.SIGKILL) // an error: it has ended
		g.w.Close()
		g.w = nil
	}
}

// close makes the guard kill what remains. No guard is started after that.
func (g *guardLink) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.w != nil {
		g.child.Signal(syscall.SIGCONT) // an error: it has ended
		g.w.Close()
		g.w = nil
	}
}

// started reports whether a process has been started that needs a guard.
func (g *guardLink) started() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.needed
}

// pid returns the pid of the guard, or 0 if there is none or if it is known to be dead.
func (g *guardLink) pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.w == nil {
		return 0
	}
	return g.child.Self().PID
}
