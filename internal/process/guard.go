//go:build unix

package process

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/process/child"
	"asyncrepl/internal/process/guard"
)

// guardWriteLimit bounds how long a guard that does not read can delay a start. The pipe buffers
// thousands of lines first. The limit is longer than a busy machine can take between setting the
// deadline and writing.
const guardWriteLimit = time.Second

// A guardLink is our side of the guard, the process that kills our remaining processes if this
// program is killed.
//
// The guard starts before the first process that it watches. Each start of a process checks the
// guard: one that has exited is replaced, and the new one receives everything again; one that was
// stopped is continued. Between the end of a guard and the next start, processes remain if this
// program is killed too.
type guardLink struct {
	owner *Owner
	limit time.Duration // guardWriteLimit, except in tests

	starting sync.Mutex // held while a guard is started; never together with mu or reaper.mu

	mu     sync.Mutex
	dirs   []string               // the guard removes them at the end
	added  map[int]procfs.Process // the processes that the guard must watch, by pid
	w      *os.File               // nil: there is no guard
	child  *child.Child
	needed bool // ensure has been called: a process was to be started
	closed bool
}

// ensure starts a guard if none is running. If that fails it logs the error, and processes are
// started without a guard.
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
	lines.WriteString(guard.Mark(ownerMark, g.owner.token()))
	for _, dir := range g.dirs {
		lines.WriteString(guard.Remove(dir))
	}
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
	if err := reaper.launch(nil, config.Guard[0], config.Guard, attr, func(c *child.Child) { started = c }); err != nil {
		w.Close()
		return nil, nil, err
	}
	return started, w, nil
}

// running reports whether no guard need be started. It asks the kernel, because reap may not have
// noticed the guard's death yet; a guard that could not be inspected counts as alive. A guard that
// is stopped, or about to be, is continued.
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

// RemoveAtEnd makes the guard remove a directory of this program, in case this program is killed before
// it has.
func (o *Owner) RemoveAtEnd(dir string) {
	g := o.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dirs = append(g.dirs, dir)
	g.write(guard.Remove(dir))
}

// Mark returns the variable, as NAME=value, that all processes of the Owner have in their environment.
func (o *Owner) Mark() string { return ownerMark + "=" + o.token() }

// add makes the guard watch p and everything in a group or session of p's pid. It reports whether a
// guard received that; if not, the next guard will.
func (g *guardLink) add(p procfs.Process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.added[p.PID] = p
	return g.write(guard.Add(p))
}

// forget makes the guard stop watching p. The process has ended, and its group and session are
// empty.
func (g *guardLink) forget(p procfs.Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.added[p.PID].Start != p.Start {
		return
	}
	delete(g.added, p.PID)
	g.write(guard.Forget(p.PID))
}

// write sends lines to the guard, and drops a guard that does not read them. It reports whether
// they were written. The caller holds mu.
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

// drop ends the guard, if there is one. It kills the guard before it closes the pipe, because at
// the end of the pipe the guard would kill our processes. The caller holds mu.
func (g *guardLink) drop() {
	if g.w != nil {
		g.child.Signal(syscall.SIGKILL) // an error: it has ended
		g.w.Close()
		g.w = nil
	}
}

// close makes the guard kill the remaining processes and exit. If none is left, it only exits. No
// guard is started after that.
func (g *guardLink) close(noneLeft bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if noneLeft {
		g.write(guard.Ended())
	}
	if g.w != nil {
		g.child.Signal(syscall.SIGCONT) // an error: it has ended
		g.w.Close()
		g.w = nil
	}
}

// closeSparing is close, without the orphans that the Owner leaves to others. No scan can come
// between.
func (g *guardLink) closeSparing(r *processReaper, noneLeft bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.orphans {
		if o.sparedBy(g.owner) {
			g.forget(o.Process)
		}
	}
	g.close(noneLeft)
}

// started reports whether a process was started, or was about to be, that needs a guard.
func (g *guardLink) started() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.needed
}

// pid returns the pid of the guard, or 0 if no guard runs or the guard is known to have exited.
func (g *guardLink) pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.w == nil {
		return 0
	}
	return g.child.Self().PID
}
